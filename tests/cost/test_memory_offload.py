"""What settings keep off the device: reckoned with as if it stayed, and never the reason why a plan is called infeasible."""

from __future__ import annotations

import pytest
from memory_cases import ADAM, BF16
from planproof.calibration.memory_case import one_device
from planproof.cost.frameworks import implementation_of
from planproof.cost.memory import MemoryModel, StageMemory, fits, memory_ledger
from planproof.hardware import load_device
from planproof.model import Attention, Transformer, Workload
from planproof.plan import Mesh, Plan, Recompute, Stage

#: Llama 13B on 6 x 40 GB: 12 bytes of optimizer state a parameter are 24 GiB of a rank.
MODEL = Transformer(
    layers=40, hidden=5120, heads=40, kv_heads=40, head_dim=128, ffn=13824, vocabulary=32000, gated=True,
    tied_embeddings=False, norm="rms",
)  # fmt: skip
WORK = Workload(4096, 24, BF16, ADAM, Attention.FLASH)


def memory(framework: str, settings: dict[str, object], recompute: Recompute = Recompute.FULL) -> StageMemory:
    plan = Plan("p", (Stage(0, 39, Mesh(6), True, True),), 4, 1, zero=3, recompute=recompute)
    known = MemoryModel(MODEL, WORK, implementation_of(framework, None, settings))
    return memory_ledger(plan, MODEL, WORK, one_device(load_device("A100-40GB")), known)[0]


@pytest.mark.parametrize(
    ("framework", "settings", "away"),
    [
        ("deepspeed", {"zero_optimization.offload_optimizer.device": "cpu"}, ("gradients", "optimizer state")),
        ("deepspeed", {"zero_optimization.offload_optimizer.device": "nvme"}, ("gradients", "optimizer state")),
        ("deepspeed", {"zero_optimization.offload_param.device": "CPU"}, ("parameters",)),
        ("accelerate", {"deepspeed_config.offload_optimizer_device": "cpu"}, ("gradients", "optimizer state")),
        ("accelerate", {"fsdp_config.fsdp_offload_params": True}, ("parameters", "gradients", "optimizer state")),
        ("megatron-core", {"optimizer_cpu_offload": True}, ("optimizer state",)),
        ("torchtitan", {"training.enable_cpu_offload": "true"}, ("parameters", "gradients", "optimizer state")),
    ],
)
def test_the_low_end_is_without_what_is_offloaded(framework: str, settings: dict[str, object], away: tuple[str, ...]) -> None:
    here, gone = memory(framework, {}), memory(framework, settings)
    assert (gone.allocated.value, gone.allocated.high) == (here.allocated.value, here.allocated.high)
    left = sum(here.row(name).bytes for name in away)
    assert here.allocated.low - gone.allocated.low == pytest.approx(left, rel=0.15)


@pytest.mark.parametrize("value", ["none", False, None])
def test_an_option_that_is_off_keeps_nothing_away(value: object) -> None:
    settings = {"zero_optimization.offload_optimizer.device": value, "optimizer_cpu_offload": value}
    assert memory("deepspeed", settings).allocated == memory("deepspeed", {}).allocated


def test_a_plan_that_offloading_may_clear_is_at_risk_and_one_that_it_cannot_is_refused() -> None:
    settings: dict[str, object] = {"zero_optimization.offload_optimizer.device": "cpu"}
    assert (fits(memory("deepspeed", {})), fits(memory("deepspeed", settings))) == ("no", "at_risk")
    assert fits(memory("deepspeed", settings, Recompute.NONE)) == "no"
