"""Seconds of collectives and of messages between stages, on the tiers that a group really crosses.

Vocabulary: *operation* is all_reduce, all_gather, reduce_scatter, all_to_all or broadcast; a *level* is a tier with the
number of units that meet on it, so a group of 16 on two islands of 8 has levels 8 and 2; *bus bandwidth* is what one
device moves a second. `size` is bytes of one device: the buffer of an all-reduce, of an all-to-all and of a broadcast, the
whole result of an all-gather, the whole input of a reduce-scatter. NICs shared by the devices of a node are shared in the
tier's bandwidth already. Nothing here knows plans or models.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from math import exp, fsum, log, log2, sqrt
from typing import NamedTuple

from ..cluster.cluster import Cluster, Collective, Tier, reach
from ..hardware import CollectiveCurve, LinkTopology, NodeLink
from .collective_formulas import TREES, between_curves, in_network_bytes, kept_bytes, ring_steps, rounds, tree_steps
from .collective_formulas import bus_factor as bus_factor
from .factors import NOMINAL, Constant, Factors, load_constants
from .link_shares import falling, ramp_name, share_name

_MIB = 2**20


class Spent(NamedTuple):
    """Seconds, and how they fall on tiers by name; the parts add up to the whole."""

    seconds: float
    tiers: tuple[tuple[str, float], ...] = ()

    def scaled(self, factor: float) -> Spent:
        """`factor` times as much of everything."""
        return Spent(self.seconds * factor, tuple((name, part * factor) for name, part in self.tiers))


FREE = Spent(0.0)


class Level(NamedTuple):
    """`units` meet on `tier`, each with `inside` members of the group; `rate` is a device's bus bandwidth on it.

    `between_nodes`: its latency is that of trees; inside a node libraries pass data on in chains. `reduces`: its switches
    reduce in flight. `ramp`: seconds, as in `_ramp`.
    """

    tier: Tier
    units: int
    inside: int
    rate: float
    latency: float
    curves: Mapping[str, CollectiveCurve]
    scale: float
    between_nodes: bool = False
    reduces: bool = False
    ramp: float = 0.0


class Network:
    """The cluster's tiers as a cost of communication, under one set of factors. Keeps what it has worked out of each
    group. `in_network`: the names of the tiers whose switches reduce in flight (SHARP), where that is declared.
    """

    def __init__(
        self,
        cluster: Cluster,
        factors: Factors = NOMINAL,
        constants: Mapping[str, Constant] | None = None,
        *,
        in_network: Collection[str] = (),
    ) -> None:
        self.cluster = cluster
        known = load_constants() if constants is None else constants
        fitted = cluster.device.calibration
        self._constants = known
        self._fabric = fitted.fabric.value if fitted is not None and fitted.fabric is not None else None
        self._startup = known["collective_startup"].value * factors.latency
        self._latency = factors.latency
        self._bandwidth = dict(factors.bandwidth)
        self._trust = factors.measured
        self._in_network = frozenset(in_network) | {tier.name for tier in cluster.tiers if tier.reduces}
        #: Seconds of copying a byte within a device: read once and written once.
        self._copy = 2.0 / cluster.device.memory_bandwidth.value
        self._links = {link.island: link for link in cluster.nodes[0].sheet.links}
        self._node = cluster.devices_per_node
        self._groups: dict[tuple[int, int], tuple[Level, ...]] = {}
        self._measured: dict[tuple[str, int, int], Collective] = {}
        for one in cluster.collectives:
            nodes = one.nodes if one.nodes is not None else -(-one.ranks // self._node)
            self._measured[_operation(one.operation), one.ranks, nodes] = one

    def levels(self, ranks: int, stride: int) -> tuple[Level, ...]:
        """The levels of a group of `ranks` devices, `stride` apart, innermost first."""
        found = self._groups.get((ranks, stride))
        if found is None:
            inside, rows = 1, []
            for tier, members in reach(self.cluster, ranks, stride).members:
                if (units := -(-members // inside)) > 1:
                    rows.append(self._level(tier, units, inside))
                inside = members
            found = self._groups[ranks, stride] = tuple(rows)
        return found

    def _level(self, tier: Tier, units: int, inside: int) -> Level:
        factor = self._bandwidth.get(tier.name, 1.0)
        between_nodes = tier.span > self._node
        link = None if between_nodes else self._links.get(tier.span)
        curves, scale = _curves(link, units, tier, factor) if inside == 1 else ({}, 1.0)
        return Level(
            tier,
            units,
            inside,
            self._reached(tier, link, units, inside),
            tier.latency.value * self._latency,
            curves,
            scale,
            between_nodes,
            tier.name in self._in_network,
            self._constants[ramp_name(self.cluster, tier)].value,
        )

    def _reached(self, tier: Tier, link: NodeLink | None, devices: int, inside: int = 1) -> float:
        """Bytes/s of one device on `tier`: `devices` units of `inside` members each send at once."""
        name = share_name(self.cluster, tier)
        share = self._fabric if name == "fabric_share" and self._fabric is not None else self._constants[name].value
        rate = tier.bandwidth.value * share * falling(tier, link, devices, self._constants)
        if link is not None and link.rings:
            # The tier may state what the proposer measured; a stated ring of the sheet never adds to it. Of lanes and bridges it
            # is what they carry; on PCI Express what rings were seen to get, by one port for all members inside a unit.
            ring = link.ring(devices * inside).value
            rate = min(rate, ring / inside if name == "pcie_share" else ring * share)
        return float(rate * self._bandwidth.get(tier.name, 1.0))

    def collective(self, operation: str, size: float, ranks: int, stride: int) -> Spent:
        """Seconds of one collective of a group, nothing hidden.

        A measured curve of this cluster where one fits the operation, the ranks and the nodes; otherwise the quickest way,
        as libraries choose: level by level (reduce-scatter inwards, all-reduce of the shards on the outermost level,
        all-gather back), one ring or tree through all levels at the rate of the narrowest, or in the switches where all
        levels reduce.
        """
        if ranks <= 1 or size <= 0:
            return FREE
        levels = self.levels(ranks, stride)
        slowest = levels[-1].tier
        measured = self._measured.get((operation, ranks, self._nodes(ranks, stride)))
        if measured is not None:
            return self._interpolated(measured, operation, size, levels)
        if len(levels) == 1:
            seconds = self._flat(operation, size, levels[0])
            return Spent(seconds, ((slowest.name, seconds),))
        if operation == "all_to_all":
            return self._exchange(size, ranks, levels)
        quickest = self._ring(operation, size, ranks, levels)
        if operation in TREES and (tree := self._tree(operation, size, levels)).seconds < quickest.seconds:
            quickest = tree
        if (
            operation == "all_reduce"
            and all(level.reduces for level in levels)
            and (switched := self._switched(size, levels)).seconds < quickest.seconds
        ):
            quickest = switched
        if operation != "broadcast" and (by_level := self._by_level(operation, size, levels)).seconds <= quickest.seconds:
            quickest = by_level
        return quickest

    def once_a_unit(self, size: float, copies: Callable[[int, int], float], ranks: int, stride: int) -> Spent:
        """An exchange in which each of a device's tokens, `size` bytes together, goes once to every unit that wants it, and on
        from there inside.

        `copies(units, siblings)`: copies of a token that leave a unit for its `siblings` - 1 others, `units` of that size making
        up the group. All levels at the same time, as in an all-to-all.
        """
        if ranks <= 1 or size <= 0:
            return FREE
        levels = self.levels(ranks, stride)
        if len(levels) == 1:
            sent = copies(ranks, ranks) / bus_factor("all_to_all", ranks) * size
            seconds = self._flat("all_to_all", sent, levels[0])
            return Spent(seconds, ((levels[0].tier.name, seconds),))
        return self._longest(lambda level: copies(-(-ranks // level.inside), level.units) * size, levels)

    def send(self, size: float, tier: Tier) -> Spent:
        """Seconds of one message from a device to one other over `tier`: latency, bytes over bandwidth, ramp."""
        moved = size / self.rate(tier)
        ramp = _ramp(self._constants[ramp_name(self.cluster, tier)].value, moved)
        seconds = self._startup + tier.latency.value * self._latency + moved + ramp
        return Spent(seconds, ((tier.name, seconds),))

    def rate(self, tier: Tier) -> float:
        """Bytes/s that one device gets on `tier` while all devices of the unit send."""
        return self._reached(tier, None if tier.span > self._node else self._links.get(tier.span), 2)

    def tier_between(self, first: int, last: int) -> Tier:
        """The innermost tier with devices `first` to `last` in one unit; the outermost where none has."""
        for tier in self.cluster.tiers:
            if first // tier.span == last // tier.span:
                return tier
        return self.cluster.tiers[-1]

    def _flat(self, operation: str, size: float, level: Level) -> float:
        """One level alone: startup + steps x latency + bytes / bus bandwidth + own shard / copy + ramp.

        The quickest of what there is: a ring; between nodes a tree, which has fewer steps and moves all of `size` every pass;
        for an all-reduce the switch where it reduces, two steps, up and down.
        """
        n = level.units
        curve = level.curves.get(operation)
        if curve is not None:
            rate = curve.bus_bandwidth.value * level.scale
            ramp = curve.root_term.value * sqrt(size / _MIB)
            return curve.latency.value * self._latency + bus_factor(operation, n) * size / rate + ramp
        seconds = ring_steps(operation, n) * level.latency + bus_factor(operation, n) * size / level.rate
        if level.between_nodes:
            if operation in TREES:
                seconds = min(seconds, tree_steps(operation, n) * level.latency + rounds(operation) * size / level.rate)
        else:
            seconds += kept_bytes(operation, size, n) * self._copy
        if level.reduces and operation == "all_reduce":
            seconds = min(seconds, 2 * level.latency + self._in_switch(size, level))
        return self._startup + seconds + _ramp(level.ramp, size / level.rate)

    def _switched(self, size: float, levels: tuple[Level, ...]) -> Spent:
        """An all-reduce in the switches of all levels at once, two steps each: what the busiest level takes. The members inside
        a unit share what crosses it.
        """
        busiest = max(levels, key=lambda level: self._in_switch(size, level) / level.inside)
        latency = fsum(2 * level.latency for level in levels)
        seconds = self._startup + latency + self._in_switch(size, busiest) / busiest.inside + _longest_ramp(size, levels)
        return Spent(seconds, ((busiest.tier.name, seconds),))

    def _in_switch(self, size: float, level: Level) -> float:
        return in_network_bytes(size, level.units, multicast=not level.between_nodes) / level.rate

    def _by_level(self, operation: str, size: float, levels: tuple[Level, ...]) -> Spent:
        parts: list[tuple[str, float]] = []
        there = size
        for level in levels[:-1]:
            seconds = 0.0
            if operation in ("all_reduce", "reduce_scatter"):
                seconds += self._flat("reduce_scatter", there, level)
            if operation in ("all_reduce", "all_gather"):
                seconds += self._flat("all_gather", there, level)
            parts.append((level.tier.name, seconds))
            there /= level.units
        parts.append((levels[-1].tier.name, self._flat(operation, there, levels[-1])))
        return Spent(fsum(seconds for _, seconds in parts), tuple(parts))

    def _ring(self, operation: str, size: float, ranks: int, levels: tuple[Level, ...]) -> Spent:
        """One pipelined ring: the members inside a unit share what crosses it, so a level carries `inside` devices'
        rates. Of its n - 1 steps a pass, as many cross a level as there are units on it, less those that lead further out.
        """
        hops = fsum((1 - 1 / level.units) * ranks / level.inside * level.latency for level in levels)
        return self._pipelined(rounds(operation) * hops, bus_factor(operation, ranks) * size, size, levels)

    def _tree(self, operation: str, size: float, levels: tuple[Level, ...]) -> Spent:
        """A double binary tree between nodes and a chain inside each, as NCCL lays them; all of `size` every pass."""
        hops = fsum((log2(level.units) if level.between_nodes else level.units - 1) * level.latency for level in levels)
        return self._pipelined(rounds(operation) * hops, rounds(operation) * size, size, levels)

    def _pipelined(self, latency: float, wire: float, size: float, levels: tuple[Level, ...]) -> Spent:
        narrowest = min(levels, key=lambda level: level.rate * level.inside)
        seconds = self._startup + latency + wire / (narrowest.rate * narrowest.inside) + _longest_ramp(size, levels)
        return Spent(seconds, ((narrowest.tier.name, seconds),))

    def _exchange(self, size: float, ranks: int, levels: tuple[Level, ...]) -> Spent:
        """All-to-all over several levels: each level carries what its units have for one another, all at the same
        time.
        """
        return self._longest(lambda level: level.inside * (level.units - 1) / ranks * size, levels)

    def _longest(self, moved_by: Callable[[Level], float], levels: tuple[Level, ...]) -> Spent:
        """The level that takes longest to send what `moved_by` says a device has for it."""
        slowest, longest = levels[0].tier.name, 0.0
        for level in levels:
            moved = moved_by(level) / level.rate
            seconds = log2(level.units) * level.latency + moved + _ramp(level.ramp, moved)
            if seconds > longest:
                slowest, longest = level.tier.name, seconds
        seconds = self._startup + longest
        return Spent(seconds, ((slowest, seconds),))

    def _nodes(self, ranks: int, stride: int) -> int:
        inside = min(ranks, max(1, -(-self._node // stride)))
        return -(-ranks // inside)

    def _interpolated(self, curve: Collective, operation: str, size: float, levels: tuple[Level, ...]) -> Spent:
        """Log-log between measured sizes; beyond them the curve's end scaled as the formula scales from there."""
        rows = curve.rows
        at = bisect_right(rows, (size, float("inf")))
        if at == 0 or at == len(rows):
            edge, seconds = rows[0] if at == 0 else rows[-1]
            scale = fsum(self._flat(operation, size, level) for level in levels)
            seconds *= scale / fsum(self._flat(operation, float(edge), level) for level in levels)
        else:
            (small, quick), (large, slow) = rows[at - 1], rows[at]
            share = log(size / small) / log(large / small)
            seconds = exp(log(quick) + share * log(slow / quick))
        seconds /= self._trust
        return Spent(seconds, ((levels[-1].tier.name, seconds),))

    def measured(self, operation: str, ranks: int, stride: int) -> Collective | None:
        """The measured curve that prices this collective, if there is one."""
        return self._measured.get((operation, ranks, self._nodes(ranks, stride)))


def _ramp(overhead: float, moved: float) -> float:
    """Seconds until a transfer of `moved` seconds is at its full rate: the root of both, as of one cut into the best number of
    pieces, each with an overhead (Thakur, Rabenseifner and Gropp 2005).
    """
    return sqrt(overhead * moved)


def _longest_ramp(size: float, levels: tuple[Level, ...]) -> float:
    return max(_ramp(level.ramp, size / (level.rate * level.inside)) for level in levels)


def _curves(link: NodeLink | None, devices: int, tier: Tier, factor: float) -> tuple[Mapping[str, CollectiveCurve], float]:
    """The sheet's curves for `devices`, and what to scale their bandwidth by where the tier states another rate. On a switch
    a group between two stated ones has a curve between theirs.
    """
    if link is None:
        return {}, 1.0
    rows = {curve.operation: curve for curve in link.collectives if curve.devices == devices}
    if link.topology is LinkTopology.SWITCH:
        for operation in {curve.operation for curve in link.collectives} - rows.keys():
            stated = sorted((c for c in link.collectives if c.operation == operation), key=lambda c: c.devices)
            at = bisect_right(stated, devices, key=lambda c: c.devices)
            if 0 < at < len(stated):
                rows[operation] = between_curves(stated[at - 1], stated[at], devices)
    return rows, factor * tier.bandwidth.value / link.bandwidth.value


def _operation(name: str) -> str:
    """`AllReduce`, `all-reduce` and `all_reduce` are one."""
    plain = name.lower().replace("-", "").replace("_", "").removesuffix("perf")
    known = {
        "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
        "broadcast": "broadcast",
    }  # fmt: skip
    return known.get(plain, name)
