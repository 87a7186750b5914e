"""What crosses each boundary between the stages of a plan: tiles, bytes over slow and fast links, method and time.

Vocabulary: the *stream* is the residual stream of one microbatch, all replicas of a stage together; a *group* is a set of hosts
that exchange among themselves alone: replicas are independent, so only those whose hosts meet are planned together, and groups
alike are planned once. The stream lies as its framework has it: batch on data, tokens on context and, under sequence
parallelism, on tensor; that of a graph is what crosses, all elements of a sequence in a row. Nothing here knows rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from ..cluster.cluster import Cluster, Tier
from ..cluster.units import nodes, unit_in
from ..cost import Priced
from ..cost.activations import element_bytes
from ..cost.memory_terms import local_microbatch
from ..cost.placement import axis_strides
from ..cost.sending import Transfer
from ..errors import InputError
from ..plan import Plan
from ..search.pricing import PlanPricer
from ..search.resharding import ReshardingPlan, plan_resharding
from ..search.resharding_time import Hosts
from ..search.resharding_units import Sharding, Tensor

#: Devices of a group, of both stages, beyond which it is not planned: work grows with the square of them.
MOST_DEVICES = 256

#: (data, context, tensor) devices of a stage: sizes, distances, first device.
_Side = tuple[tuple[int, int, int], tuple[int, int, int], int]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a boundary: the stage's mesh and what of the stream each axis divides."""

    data: int
    context: int
    tensor: int
    sequence_parallel: bool

    @property
    def sharding(self) -> str:
        """In words: `batch on data 8, tokens on context 2 and tensor 4, whole on tensor 4`."""
        tokens = [f"context {self.context}"] if self.context > 1 else []
        tokens += [f"tensor {self.tensor}"] if self.tensor > 1 and self.sequence_parallel else []
        parts = [f"batch on data {self.data}"] if self.data > 1 else []
        parts += [f"tokens on {' and '.join(tokens)}"] if tokens else []
        parts += [f"whole on tensor {self.tensor}"] if self.tensor > 1 and not self.sequence_parallel else []
        return ", ".join(parts) or "whole on one device"


@dataclass(frozen=True, slots=True)
class Boundary:
    """The boundary after stage `first[0]`; `first` lists all that are alike. Seconds and bytes are of one microbatch and way.

    `slow_bytes` pass between hosts, on `slow_tier`; `fast_bytes` inside them. `priced_s`: what the step's price has for the
    message, `way` how the framework sends it; `other_s`: the other way by the same cost. With `reason` nothing was planned.
    """

    first: tuple[int, ...]
    shape: tuple[int, int, int]
    element_bytes: int
    source: Side
    destination: Side
    groups: int
    slow_tier: str
    slow_bytes: int
    fast_bytes: int
    forward: ReshardingPlan | None
    backward: ReshardingPlan | None
    forward_s: float
    backward_s: float
    priced_s: float
    way: Transfer
    other_s: float
    reason: str = ""

    @property
    def other(self) -> Transfer:
        """The way that is not priced."""
        return Transfer.SCATTER_GATHER if self.way is Transfer.DIRECT else Transfer.DIRECT


def plan_boundaries(priced: Priced, pricer: PlanPricer) -> tuple[Boundary, ...]:
    """Every boundary between the stages of a plan, those alike together."""
    plan, cluster = priced.plan, pricer.cluster
    time = pricer.pricer.time
    hops = time.hops(plan)[0]
    another = Transfer.SCATTER_GATHER if time.transfer is Transfer.DIRECT else Transfer.DIRECT
    others = time.hops_by(plan, another)[0] if len(plan.stages) > 1 else ()
    starts = time.placed(plan)[0]
    alike: dict[tuple[object, ...], list[int]] = {}
    found: dict[tuple[object, ...], tuple[list[_Group], tuple[int, int, int]]] = {}
    for k in range(len(plan.stages) - 1):
        before, after = _side(plan, k, starts), _side(plan, k + 1, starts)
        batches = [local_microbatch(plan, plan.stages[at]) * plan.stages[at].mesh.data for at in (k, k + 1)]
        shape = (batches[0], *pricer.stream(plan, k))
        groups = list(_groups(cluster, before, after)) if batches[0] == batches[1] else []
        kinds = tuple(sorted({(group.signature, _tier(pricer, group)) for group in groups}, key=repr))
        lie = pricer.stream_divided(plan, k), pricer.stream_divided(plan, k + 1)
        key = (plan.stages[k].mesh, plan.stages[k + 1].mesh, shape, lie, kinds, hops[k].seconds)
        alike.setdefault(key, []).append(k)
        found.setdefault(key, (groups, shape))
    return tuple(
        _boundary(plan, pricer, tuple(at), *found[key], hops[at[0]].seconds, others[at[0]].seconds) for key, at in alike.items()
    )


def _side(plan: Plan, k: int, starts: Sequence[int]) -> _Side:
    mesh = plan.stages[k].mesh
    distance = axis_strides(plan, mesh)
    return (
        (mesh.data, mesh.context, mesh.tensor), (distance["data"], distance["context"], distance["tensor"]), starts[k],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Group:
    """Devices of both sides in row-major order of (data, context, tensor), with the host of each."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    hosts: tuple[int, ...]
    #: Of how many equal parts of the batch this group has `parts`.
    parts: int
    of: int

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for groups whose devices lie alike on hosts of their own."""
        names: dict[int, int] = {}
        placed = tuple(names.setdefault(host, len(names)) for host in self.hosts)
        overlap = tuple(self.before.index(device) for device in self.after if device in set(self.before))
        return (len(self.before), len(self.after), placed, self.parts, self.of, overlap)


def _groups(cluster: Cluster, before: _Side, after: _Side) -> Iterator[_Group]:
    """The parts of the batch that both sides divide alike, joined where their hosts meet."""
    parts = gcd(before[0][0], after[0][0])
    rows_of_nodes = nodes(cluster)

    def hosts(device: int) -> int:
        return unit_in(rows_of_nodes, device)

    rows = [(_devices(before, part, parts), _devices(after, part, parts)) for part in range(parts)]
    root = list(range(parts))

    def top(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    owner: dict[int, int] = {}
    for part, (one, two) in enumerate(rows):
        for device in (*one, *two):
            other = owner.setdefault(hosts(device), part)
            root[top(part)] = top(other)
    joined: dict[int, list[int]] = {}
    for part in range(parts):
        joined.setdefault(top(part), []).append(part)
    for members in joined.values():
        first = tuple(device for part in members for device in rows[part][0])
        last = tuple(device for part in members for device in rows[part][1])
        yield _Group(first, last, tuple(hosts(device) for device in (*first, *last)), len(members), parts)


def _devices(side: _Side, part: int, parts: int) -> list[int]:
    (data, context, tensor), (by_data, by_context, by_tensor), start = side
    each = data // parts
    return [
        start + d * by_data + c * by_context + t * by_tensor
        for d in range(part * each, (part + 1) * each)
        for c in range(context)
        for t in range(tensor)
    ]


def _tier(pricer: PlanPricer, group: _Group) -> str:
    devices = (*group.before, *group.after)
    return pricer.pricer.time.network.tier_between(min(devices), max(devices)).name


def _boundary(
    plan: Plan,
    pricer: PlanPricer,
    at: tuple[int, ...],
    groups: list[_Group],
    shape: tuple[int, int, int],
    priced: float,
    other: float,
) -> Boundary:
    """Groups alike are planned once, and the slowest counts; bytes are of all."""
    one, two = (plan.stages[k].mesh for k in (at[0], at[0] + 1))
    lie = (pricer.stream_divided(plan, k) for k in (at[0], at[0] + 1))
    begin, end = (Side(mesh.data, mesh.context, mesh.tensor, divided) for mesh, divided in zip((one, two), lie, strict=True))
    size = int(element_bytes(pricer.workload))
    network = pricer.pricer.time.network
    inner = network.rate(pricer.cluster.tiers[0])
    known: dict[tuple[object, ...], tuple[ReshardingPlan, ReshardingPlan, float, float]] = {}
    slow = fast = 0
    tier_name = ""
    reason = "" if groups else "the stages do not hold the same sequences of a microbatch"
    for group in groups:
        devices = (*group.before, *group.after)
        if len(devices) > MOST_DEVICES:
            reason = f"{len(devices):,} devices exchange in one group of hosts, more than the {MOST_DEVICES} that a review plans"
            break
        tier = network.tier_between(min(devices), max(devices))
        key = (group.signature, tier.name)
        if key not in known:
            tensor = Tensor((max(1, shape[0] * group.parts // group.of), *shape[1:]), size)
            host_of = dict(zip(devices, group.hosts, strict=True))
            startup = network.send(0.0, tier).seconds
            hosts = Hosts(host_of, network.rate(tier) * _cards(pricer.cluster, tier, host_of, group), inner, startup)
            source, destination = _sharding(begin, group.before), _sharding(end, group.after)
            try:
                there = plan_resharding(tensor, source, destination, hosts)
                back = plan_resharding(tensor, destination, source, hosts)
            except InputError as error:
                reason = error.message
                break
            # A plan has the latency of its hops between hosts; what stays inside one starts as any message does.
            ahead_s, behind_s = (way.time_s + (startup if _inside(way) else 0.0) for way in (there, back))
            known[key] = (there, back, ahead_s, behind_s)
        plan_there = known[key][0]
        here = sum(count for (a, b), count in plan_there.bytes_by_link.items() if a != b)
        slow, fast = slow + here, fast + sum(plan_there.bytes_by_link.values()) - here
        tier_name = tier.name if here else tier_name
    ahead = max(known.values(), key=lambda row: row[2], default=None)
    if reason or ahead is None:
        way = pricer.pricer.time.transfer
        return Boundary(at, shape, size, begin, end, len(groups), "", 0, 0, None, None, 0.0, 0.0, priced, way, other, reason)
    back_s = max(row[3] for row in known.values())
    return Boundary(
        at, shape, size, begin, end, len(groups), tier_name, slow, fast, ahead[0], ahead[1], ahead[2], back_s, priced,
        pricer.pricer.time.transfer, other,
    )  # fmt: skip


def _inside(way: ReshardingPlan) -> bool:
    """Whether something moves, and nothing of it between hosts."""
    return bool(way.steps) and all(a == b for a, b in way.bytes_by_link)


def _cards(cluster: Cluster, tier: Tier, host_of: Mapping[int, int], group: _Group) -> float:
    """What a host can send at once, in shares of a device whose whole node sends: that of its cards which its devices of the
    group reach, each the nearest to it.
    """
    node = cluster.devices_per_node
    if tier.span <= node:
        return node
    fewest = min(min(Counter(host_of[device] for device in side).values()) for side in (group.before, group.after))
    cards = min(tier.cards or node, node)
    return node * min(1.0, fewest / cards)


def _sharding(end: Side, devices: tuple[int, ...]) -> Sharding:
    mesh = (len(devices) // (end.context * end.tensor), end.context, end.tensor)
    return Sharding(mesh, devices, ((0,), (1, 2) if end.sequence_parallel else (1,), ()))
