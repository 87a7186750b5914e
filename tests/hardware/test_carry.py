"""A software family on a device without measured runs: carried from one of its architecture, or where carrying was tested."""

from __future__ import annotations

import pytest
from planproof.calibration.unseen import from_others
from planproof.hardware import open_library
from planproof.hardware.carry import carried
from planproof.quantity import Grade

LIBRARY = open_library()


def test_the_same_processor_carries_shares_as_they_are() -> None:
    known = LIBRARY.calibration(LIBRARY.device("H100"), "fsdp")
    found = LIBRARY.carried(LIBRARY.device("H200"), "fsdp")
    assert known is not None
    assert known.gemm is not None
    assert found is not None
    assert found.gemm is not None
    assert found.gemm.value == known.gemm.value
    assert (found.carried_from, found.device, found.gemm.grade) == ("H100", "H200", Grade.ASSUMED)
    assert found.gemm.low <= known.gemm.value * 0.9


def test_from_ampere_to_hopper_products_follow_what_is_achieved_and_flash_the_width_of_tensor_cores() -> None:
    """85.9 % of peak in isolated products on A100, 80.3 % on H100; 2,048 and 4,096 FLOPs of a multiprocessor and clock."""
    a100, h100 = LIBRARY.device("A100-80GB"), LIBRARY.device("H100")
    known = LIBRARY.calibration(a100, "fsdp")
    assert known is not None
    found = carried(known, a100, h100)
    assert found.gemm is not None
    assert known.gemm is not None
    assert found.gemm.value == pytest.approx(known.gemm.value * 0.803 / 0.859)
    assert found.attention_flash is not None
    assert known.attention_flash is not None
    assert found.attention_flash.value == pytest.approx(known.attention_flash.value / 2)


def test_a_family_of_one_architecture_alone_is_not_carried_to_another() -> None:
    assert LIBRARY.carried(LIBRARY.device("H100"), "megatron-deepspeed") is None
    assert LIBRARY.carried(LIBRARY.device("A100-40GB"), "megatron-deepspeed") is not None
    assert LIBRARY.carried(LIBRARY.device("MI300X"), "fsdp") is not None, "measured on Ampere and on Hopper"


def test_an_unseen_family_never_takes_its_own_shares() -> None:
    for name, software in (("A100-80GB", "megatron-lm"), ("H100", "fsdp"), ("B200", "megatron-core")):
        device = LIBRARY.device(name)
        own, found = LIBRARY.calibration(device, software), from_others(LIBRARY, device, software)
        assert own is not None
        assert own.gemm is not None
        assert found.gemm is not None
        assert found.carried_from
        assert LIBRARY.device(found.carried_from).architecture != device.architecture
        assert found.gemm.value != own.gemm.value
        assert found.fabric == own.fabric or own.fabric is None, "the network between nodes is the one measured rate"
