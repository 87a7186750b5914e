#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
# A 13B model in small words: variables, an array, arithmetic, a default, a condition, a continued line, a comment in between.
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${TP:-2}
PP=4
LAYERS=$((PP * 10))
SEQ="4096"
GQA=true
MODEL=(
    --num-layers $LAYERS   # forty
    --hidden-size 5120
    --num-attention-heads 40
    --ffn-hidden-size 13824
    --seq-length $SEQ --max-position-embeddings $SEQ
    --swiglu --normalization RMSNorm --disable-bias-linear
    --position-embedding-type rope --untie-embeddings-and-output-weights
    --vocab-size 32000
)
if [[ "$GQA" == "true" ]]; then
    MODEL+=(--group-query-attention --num-query-groups 8)
fi
TRAIN="--micro-batch-size 1 --global-batch-size 256 --train-iters 1000 \
       --bf16 --attention-dropout 0.0 --hidden-dropout 0.0 --lr 3e-4"
srun torchrun --nproc_per_node $SLURM_GPUS_PER_NODE --nnodes $SLURM_NNODES pretrain_gpt.py \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size "$PP" \
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel \
    ${MODEL[@]} $TRAIN --use-distributed-optimizer --recompute-activations \
    --use-flash-attn --log-interval 1 --save $OUT
