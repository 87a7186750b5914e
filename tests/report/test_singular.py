"""Records count one of a thing in the singular."""

from __future__ import annotations

from planproof.cost.critical import StepPath
from planproof.decision.remedy import Clearing
from planproof.report.critical import path_lines
from planproof.report.record_outlook import clearing_lines


def test_a_step_of_one_microbatch_says_that_nothing_waits() -> None:
    path = StepPath((), (), (1.0,), (0.0,), bottleneck=0, microbatches=1, shown=1, split=True)
    assert path_lines([("C1", path)]) == ["C1: one stage and one microbatch: nothing waits. "]


def test_one_change_that_was_looked_at_is_not_counted_as_none_of_one() -> None:
    (line,) = clearing_lines(Clearing("reference", "no", (), 1, 0))
    assert line == (
        "'reference' does not fit; of the single changes that the declared space allows (1 looked at) none "
        "is sure to fit and stands."
    )
