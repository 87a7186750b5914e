"""A boundary whose redistribution is beyond its bound says so in the record's line and in the JSON."""

from __future__ import annotations

import pytest
from planproof.cost.sending import Transfer
from planproof.decision.boundaries import Boundary, Side
from planproof.report.record_boundaries import _line, boundary_json
from planproof.search.resharding import plan_resharding
from planproof.search.resharding_time import Hosts
from planproof.search.resharding_units import Sharding, Tensor


@pytest.mark.parametrize("local", [float("inf"), 1e7], ids=["within its bound", "slow local links"])
def test_a_gap_stands_in_the_record_with_its_cause(local: float) -> None:
    tensor = Tensor((8, 64, 64), 2)
    hosts = Hosts({device: device // 4 for device in range(8)}, 1e8, local)
    source, destination = Sharding((1,), (0,), ((), (), ())), Sharding((2, 2), (4, 5, 6, 7), ((0,), (), ()))
    plan, back = plan_resharding(tensor, source, destination, hosts), plan_resharding(tensor, destination, source, hosts)
    one = Boundary(
        (0,), tensor.shape, 2, Side(1, 1, 1, False), Side(2, 1, 2, False), 1, "fabric", 65536, 0, plan, back, plan.time_s,
        back.time_s, 1e-3, Transfer.DIRECT, 1e-3,
    )  # fmt: skip
    line, row = _line(one), boundary_json(one)
    assert (plan.gap is None) is (local > 1e9)
    if plan.gap is None:
        assert "it takes" not in line
        assert row["forward"]["gap"] is None
        return
    assert f"Forward it takes {plan.gap.ratio:.2f} x" in line
    assert f"by {plan.gap.cause}: {plan.gap.words}." in line
    assert row["forward"]["gap"] == {"ratio": plan.gap.ratio, "cause": plan.gap.cause, "words": plan.gap.words}
