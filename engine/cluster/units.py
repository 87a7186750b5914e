"""How the devices of a cluster fall into units of a tier, and how many members of a group one unit holds.

Vocabulary: a *unit* is one island, one node, or the whole cluster; a *run* is a row of nodes alike, cut into units of one
span; a *group* is `size` devices, `stride` apart; the *block* of a group is the size x stride devices that the groups
beside it fill. Devices are numbered node by node. Nothing here enumerates devices: node counts may be large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING

from ..frozen import dataclass

if TYPE_CHECKING:
    from .cluster import Cluster, Tier

#: Runs of nodes of different sizes up to which every way that a border can cut a group is looked at.
MOST_RUNS = 8


@dataclass(frozen=True, slots=True)
class Run:
    """`nodes` nodes of `size` devices from device `first` on, each cut into units of `span`; the last may be smaller."""

    first: int
    nodes: int
    size: int
    span: int
    first_unit: int

    @property
    def end(self) -> int:
        """The device after the last."""
        return self.first + self.nodes * self.size

    def unit(self, device: int) -> int:
        """The number of the unit that holds `device`, counted over the cluster."""
        node, offset = divmod(device - self.first, self.size)
        return self.first_unit + node * -(-self.size // self.span) + offset // self.span


def runs(cluster: Cluster, tier: Tier) -> tuple[Run, ...]:
    """The units of `tier`. A tier that spans the smallest node spans every node whole; the outermost spans all devices."""
    if tier == cluster.tiers[-1]:
        return (Run(0, 1, cluster.devices, cluster.devices, 0),)
    sizes = [group.sheet.devices for group in cluster.nodes]
    if tier.span > max(sizes):
        return (Run(0, -(-cluster.devices // tier.span), tier.span, tier.span, 0),)
    found: list[Run] = []
    first = unit = 0
    for group, size in zip(cluster.nodes, sizes, strict=True):
        span = size if tier.span >= min(sizes) else min(tier.span, size)
        if size % span == 0:
            size = span
        if found and (found[-1].size, found[-1].span) == (size, span):
            before = found.pop()
            found.append(Run(before.first, before.nodes + group.devices // size, size, span, before.first_unit))
        else:
            found.append(Run(first, group.devices // size, size, span, unit))
        first += group.devices
        unit += group.devices // size * -(-size // span)
    return tuple(found)


def unit_of(cluster: Cluster, tier: Tier, device: int) -> int:
    """The number of the unit of `tier` that holds `device`."""
    return unit_in(runs(cluster, tier), device)


def unit_in(rows: Sequence[Run], device: int) -> int:
    """The number of the unit that holds `device`, of units that were worked out before (`runs`, `nodes`)."""
    return next((run for run in rows if device < run.end), rows[-1]).unit(device)


def nodes(cluster: Cluster) -> tuple[Run, ...]:
    """The nodes as units, whatever tiers there are."""
    found: list[Run] = []
    first = unit = 0
    for group in cluster.nodes:
        size = group.sheet.devices
        found.append(Run(first, group.count, size, size, unit))
        first, unit = first + group.devices, unit + group.count
    return tuple(found)


def together(cluster: Cluster, tier: Tier, size: int, stride: int, world: int | None = None) -> int:
    """Members that share a unit of `tier`: of each group the most that any unit holds, of all groups the fewest.

    That is the group that the others wait for. Of more kinds of node than `MOST_RUNS` where a border may cut a group, it is 1,
    the most spread that there is. `world`: the devices that are laid out, from device 0 on; all by default.
    """
    rows = runs(cluster, tier)
    block = size * stride
    widest = max(run.span for run in rows)
    if size == 1 or stride >= widest:
        return 1
    if len(rows) == 1 and rows[0].size == rows[0].span:
        span = rows[0].span
        if span % block == 0 or (world is not None and world <= span):
            return size
        if span % stride == 0 and block % span == 0:
            return span // stride
    if len(rows) > MOST_RUNS:
        return size if all(run.first % block == 0 and run.span % block == 0 for run in rows) else 1
    laid = world if world is not None else cluster.devices
    blocks = max(1, laid // block)
    return min(_most_together(rows, base, size, stride) for base in _bases(rows, block, stride, blocks))


def _bases(rows: tuple[Run, ...], block: int, stride: int, blocks: int) -> Iterator[int]:
    """First devices of groups, such that every other group lies in the units as one of these does."""
    for run in rows:
        inside = -(-run.first // block)
        last = min(blocks, run.end // block)
        period = run.size // gcd(block, run.size)
        seen: set[int] = set()
        for k in range(inside, min(last, inside + period)):
            for base in range(k * block, k * block + stride):
                offset = (base - run.first) % run.size
                if offset not in seen:
                    seen.add(offset)
                    yield base
        over = run.end // block
        if run.end % block and over < blocks:
            yield from range(over * block, over * block + stride)
    if blocks * block > rows[-1].end:
        yield from range(stride)


def _most_together(rows: tuple[Run, ...], base: int, size: int, stride: int) -> int:
    """The most members of the group at `base` that one unit holds."""
    most, device, left = 0, base, size
    for run in rows:
        if device >= run.end and run is not rows[-1]:
            continue
        here = left if run is rows[-1] else min(left, -(-(run.end - device) // stride))
        most = max(most, _most_in_run(run, device, here, stride))
        device, left = device + here * stride, left - here
        if left == 0:
            break
    return most


def _most_in_run(run: Run, device: int, members: int, stride: int) -> int:
    """The same of `members` from `device` on, all of them in one run: unit by unit, until no unit can hold more."""
    most, possible = 0, min(members, -(-run.span // stride))
    # Where a unit is entered repeats after at most `size` units.
    for _ in range(2 * run.size + 2):
        if members <= 0 or most == possible:
            break
        offset = (device - run.first) % run.size
        end = min(run.size, offset // run.span * run.span + run.span)
        here = min(members, -(-(end - offset) // stride))
        most = max(most, here)
        device, members = device + here * stride, members - here
    return most
