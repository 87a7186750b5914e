"""What a stage adds to the end of a step: gradient synchronisation that no pass hides, and the optimizer.

Vocabulary: a *window* is the time of a microbatch's pass, under which a stated share of a step's collectives hides. Knows no
schedules and no other stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, inf

from ..model import DTYPE_BYTES, Transformer, Workload
from ..plan import Stage
from .collectives import FREE, Network, Spent
from .compute import Rates, optimizer_seconds
from .contention import free_window
from .overlap import add, exposed
from .simulation import Durations
from .stage_costs import LayerCost, Layout
from .states import padded_vocabulary, rank_parameters

#: (gradients, new parameters, optimizer) of a stage, once a step, nothing hidden; stages by their layers and MoE layers.
Sent = tuple[Spent, Spent, float]


class EndOfStep:
    """Ends of steps of one model and workload on one network. `gradient`: the share of a window that hides them; `unfused`: of
    the optimizer.
    """

    def __init__(self, model: Transformer, workload: Workload, network: Network, gradient: float, unfused: float) -> None:
        self.model, self.workload, self.network = model, workload, network
        self._gradient, self._unfused = gradient, unfused
        precision = workload.precision
        self._wire_gradient = DTYPE_BYTES[precision.communication or precision.gradients]
        self._wire_parameter = DTYPE_BYTES[precision.parameters]
        self._sent: dict[tuple[object, ...], dict[tuple[int, int], Sent]] = {}

    def __call__(
        self, stage: Stage, moe: int, groups: Layout, zero: int, once: Durations, busy: Sequence[tuple[str, float]], rates: Rates
    ) -> tuple[Spent, float]:
        """(exposed synchronisation, optimizer) of the stage after its last backward pass.

        Hidden under a stated share of one microbatch's pass, less what the pass itself sends over the same tiers (`busy`, of
        both passes), but never the last bucket, taken as a layer's share (Li et al. 2020, arXiv 2006.15704).
        """
        known = self._of(stage, groups, zero, rates)
        key = stage.layers, moe
        found = known.get(key)
        if found is None:
            found = known[key] = self._synchronisation(stage, groups, zero, rates)
        back, home, optimizer = found
        passes = ((back, once.backward + once.weight), (home, once.forward))
        left = []
        for spent, window in passes:
            own = [(name, seconds * window / once.total) for name, seconds in busy] if once.total else []
            free = free_window(window, spent.tiers, spent.seconds, own)
            left.append(exposed(spent, self._gradient * free, max(1, stage.layers)))
        return add(*left), optimizer

    def least(
        self, stages: Iterable[tuple[Stage, int]], groups: Layout, zero: int, layer: tuple[LayerCost | None, LayerCost | None],
        ends: Sequence[LayerCost], rates: Rates,
    ) -> float:  # fmt: skip
        """The least seconds of `stages` (with their MoE layers), which differ in nothing but their layers; of none: inf.

        `layer`: a dense layer and an MoE one, as far as some stage has them. The same as calls, in plain sums.
        """
        least, known = inf, None
        kinds = [one for one in layer if one is not None]
        names = tuple({name for one in (*kinds, *ends) for name, _ in one.tiers})
        rows = [_row(names, () if one is None else (one,)) for one in layer]
        end = _row(names, ends)
        for stage, moe in stages:
            if known is None:
                known = self._of(stage, groups, zero, rates)
            layers = stage.layers
            found = known.get((layers, moe))
            if found is None:
                found = known[layers, moe] = self._synchronisation(stage, groups, zero, rates)
            back, home, seconds = found
            plain, routed = layers - moe, moe
            forward, backward, *busy = [plain * a + routed * b + c for a, b, c in zip(*rows, end, strict=True)]
            total = forward + backward
            for spent, window in ((back, backward), (home, forward)):
                if not spent.seconds:
                    continue
                free = window
                if window > 0.0 and busy:
                    tiers = dict(spent.tiers)
                    held = fsum(tiers.get(name, 0.0) * own for name, own in zip(names, busy, strict=True))
                    free = max(0.0, window - held / spent.seconds * window / total)
                seconds += max(spent.seconds / max(1, layers), spent.seconds - self._gradient * free)
            least = min(least, seconds)
        return least

    def _of(self, stage: Stage, groups: Layout, zero: int, rates: Rates) -> dict[tuple[int, int], Sent]:
        return self._sent.setdefault((stage.mesh, groups, stage.embedding, stage.head, zero, rates), {})

    def _synchronisation(self, stage: Stage, groups: Layout, zero: int, rates: Rates) -> Sent:
        """ZeRO 0: all-reduce of gradients. ZeRO 1: reduce-scatter, and all-gather of the new parameters under the next
        forward pass; ZeRO 2 has scattered before, ZeRO 3 has no more to send.
        """
        count = rank_parameters(self.model, stage, padded_vocabulary(self.model.vocabulary, stage.mesh.tensor))
        back = home = FREE
        owned = 0.0
        for number, group in ((count.dense, groups.data), (count.experts, groups.expert_data)):
            owned += number / group[0] if zero else number
            gradients, parameters = number * self._wire_gradient, number * self._wire_parameter
            if zero == 0:
                back = add(back, self.network.collective("all_reduce", gradients, *group))
            elif zero == 1:
                back = add(back, self.network.collective("reduce_scatter", gradients, *group))
            if zero in (1, 2):
                home = add(home, self.network.collective("all_gather", parameters, *group))
        return back, home, optimizer_seconds(self.workload, owned, rates, self._unfused)


def _row(names: tuple[str, ...], parts: Sequence[LayerCost]) -> tuple[float, ...]:
    """(forward, backward with weight gradients, then the tiers' seconds) of all parts."""
    tiers = dict.fromkeys(names, 0.0)
    forward = backward = 0.0
    for one in parts:
        forward += one.durations.forward
        backward += one.durations.backward + one.durations.weight
        for name, seconds in one.tiers:
            tiers[name] += seconds
    return (forward, backward, *tiers.values())
