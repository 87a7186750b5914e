#!/bin/bash
source $(dirname ${BASH_SOURCE[0]})/config_common.sh
export MINIBS=96
export TENSOR_MODEL_PARALLEL=4
export PIPELINE_MODEL_PARALLEL=8
export INTERLEAVED_PIPELINE=6
export MICRO_BATCH_SIZE=2
export DGXNNODES=16
export DGXNGPU=8
export WALLTIME=$(( ${NEXP:-1} * 40 ))
