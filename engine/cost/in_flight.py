"""How many microbatches' activations a stage holds at its peak, by schedule.

Vocabulary: with interleaving a stage is `interleave` model *chunks*, each 1/interleave of its layers; a microbatch is
in flight on a chunk from its forward to its backward pass. Counts only: nothing here knows layers, bytes or seconds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from ..plan import Schedule


def microbatch_group(stages: int, microbatches: int) -> int:
    """Microbatches that an interleaved schedule takes through one chunk before the next: `stages`, where that is possible.

    Megatron-LM (schedules.py, --microbatch-group-size-per-virtual-pipeline-stage) takes groups of at least p, the last one
    too. Where groups of p leave a smaller rest, the smallest group that does not is meant: 5 for 5 or 10 microbatches of 4
    stages, as its functional test of a tunable overlap sets it. Fewer microbatches than stages are one group.
    """
    if microbatches <= stages:
        return microbatches
    return next(group for group in range(stages, microbatches + 1) if not 0 < microbatches % group < stages)


def in_flight_chunks(schedule: Schedule, stage: int, stages: int, microbatches: int, interleave: int = 1) -> int:
    """The largest number of (microbatch, chunk) pairs in flight on stage `stage` (from 0) of `stages`.

    A chunk is the whole stage unless the schedule interleaves. Sources: gpipe holds all m (Huang et al. 2019, arXiv
    1811.06965); 1F1B min(p - stage, m) (Narayanan et al. 2021, arXiv 2104.04473, section 2.2); interleaved 1F1B 2 (p -
    stage - 1) + (v - 1) p warm-up chunks and one more, at most m v (its section 2.2; on stage 0 it is the p v + p - 1
    of Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.3); ZB-H1 at most min(p, m) on every stage, for the
    weight gradients that it puts off keep a microbatch's activations alive (Qi et al. 2023, arXiv 2401.10241). A
    pipeline of one stage finishes each microbatch before the next. With groups of g microbatches the interleaved count is
    2 (p - stage - 1) + (v - 1) g + 1: the last rank holds (v - 1) g + 1 chunks, 9 at p 4, v 3, and 11 with g 5, as the
    golden values of Megatron-LM's functional tests show.
    """
    if stages == 1:
        return 1
    if schedule is Schedule.GPIPE:
        return microbatches
    if schedule is Schedule.ZB_H1:
        return min(stages, microbatches)
    if schedule is Schedule.INTERLEAVED and interleave > 1:
        group = max(stages, microbatch_group(stages, microbatches))
        return min(2 * (stages - stage - 1) + (interleave - 1) * group + 1, microbatches * interleave)
    return min(stages - stage, microbatches)


class InFlight(NamedTuple):
    """What a stage holds at once: `chunks` of 1/`parts` of the stage, and of its ends, counted in microbatches.

    `embeddings` between the embedding's forward and backward pass, `heads` whose logits are alive, `put_off` whose
    weight gradient of the head is still to come, `before_loss` how many of these there are when the loss peaks.
    """

    chunks: int
    parts: int
    embeddings: int
    heads: int
    put_off: int
    before_loss: int = 0

    @property
    def microbatches(self) -> Fraction:
        """In microbatches' worth of the whole stage's activations."""
        return Fraction(self.chunks, self.parts)


def in_flight(schedule: Schedule, stage: int, stages: int, microbatches: int, interleave: int = 1) -> InFlight:
    """What stage `stage` (from 0) of `stages` holds at once.

    Only gpipe runs every forward pass first and so keeps the logits of all microbatches; elsewhere the last stage's
    backward pass follows its forward at once. The embedding's dropout mask is kept for p microbatches under
    interleaving (Korthikanti et al. 2022, arXiv 2205.05198, section 4.3).
    """
    chunks = in_flight_chunks(schedule, stage, stages, microbatches, interleave)
    if stages == 1:
        return InFlight(chunks, 1, 1, 1, 0)
    if schedule is Schedule.INTERLEAVED and interleave > 1:
        return InFlight(chunks, interleave, min(stages, microbatches), 1, 0)
    heads = microbatches if schedule is Schedule.GPIPE else 1
    put_off = chunks if schedule is Schedule.ZB_H1 else 0
    return InFlight(chunks, 1, chunks, heads, put_off, max(0, put_off - 1))
