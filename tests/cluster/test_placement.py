"""Placement against enumeration: every rank put on its node one by one must say what the closed forms say."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from cluster_cases import cluster
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster import Cluster, reach
from planproof.cluster.placement import Crossing, best_order, group_of, groups, links_of, shares
from planproof.errors import InputError
from planproof.plan import DEFAULT_ORDER, Mesh


def owners(found: Cluster) -> list[dict[str, int]]:
    """For each device, one by one: the unit of every tier that it lies in."""
    smallest = min(group.sheet.devices for group in found.nodes)
    rows: list[dict[str, int]] = []
    node = 0
    chunk = {tier.name: 0 for tier in found.tiers}
    for group in found.nodes:
        for _ in range(group.count):
            for local in range(group.sheet.devices):
                row = {}
                for tier in found.tiers:
                    if tier is found.tiers[-1]:
                        row[tier.name] = 0
                    elif tier.span >= smallest:
                        row[tier.name] = node
                    else:
                        row[tier.name] = chunk[tier.name] + local // tier.span
                rows.append(row)
            for tier in found.tiers:
                chunk[tier.name] += -(-group.sheet.devices // tier.span)
            node += 1
    return rows


def enumerated(order: tuple[str, ...], degrees: dict[str, int], axis: str) -> list[list[int]]:
    """The groups of an axis: all coordinates, ranks from them, those that differ in this axis alone put together."""
    found: dict[tuple[int, ...], list[int]] = {}
    spans = [degrees[name] for name in reversed(order)]
    for rank, point in enumerate(product(*map(range, spans))):
        key = tuple(value for name, value in zip(reversed(order), point, strict=True) if name != axis)
        found.setdefault(key, []).append(rank)
    return list(found.values())


@st.composite
def laid(draw: st.DrawFn) -> tuple[Cluster, tuple[str, ...], dict[str, int]]:
    size = st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 12))
    nodes = draw(st.lists(st.tuples(st.integers(1, 4), size), min_size=1, max_size=3))
    found = cluster(nodes, draw(st.sampled_from((None, 2, 3, 4))))
    room = found.devices
    degrees = {}
    for axis in DEFAULT_ORDER:
        degrees[axis] = draw(st.integers(1, min(9, room)))
        room //= degrees[axis]
    return found, tuple(draw(st.permutations(DEFAULT_ORDER))), degrees


@given(laid())
def test_reach_and_groups_are_what_enumeration_gives(case: tuple[Cluster, tuple[str, ...], dict[str, int]]) -> None:
    found, order, degrees = case
    where = owners(found)
    world = 1
    for degree in degrees.values():
        world *= degree
    stride = 1
    for axis in order:
        size = degrees[axis]
        expected = enumerated(order, degrees, axis)
        assert sorted(map(list, groups(size, stride, world))) == sorted(expected)
        assert all(list(group_of(device, size, stride)) == group for group in expected for device in group)
        for group in expected:
            links = set()
            for k, tier in enumerate(found.tiers):
                inner = found.tiers[k - 1].name if k else None
                units: dict[int, set[int]] = {}
                for device in group:
                    units.setdefault(where[device][tier.name], set()).add(where[device][inner] if inner else device)
                links |= {(tier.name, unit) for met in units.values() if len(met) > 1 for unit in met}
            assert links_of(found, group) == links
        said = {tier.name: members for tier, members in reach(found, size, stride, world).members}
        inside = 1
        for tier in found.tiers:
            most = [max(sum(where[d][tier.name] == unit for d in group) for unit in range(len(where))) for group in expected]
            fewest = min(most)
            if size > 1:
                assert (tier.name in said) == (fewest > inside), tier.name
                if fewest > inside:
                    assert said[tier.name] == fewest
            inside = max(inside, fewest)
        stride *= size


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from((2, 4, 6, 8))), min_size=1, max_size=2), st.integers(2, 8))
def test_a_group_of_neighbours_crosses_nodes_exactly_where_a_border_cuts_one(nodes: list[tuple[int, int]], size: int) -> None:
    found = cluster(nodes)
    if size > found.devices:
        return
    cut = any(len({owner["node"] for owner in owners(found)[k : k + size]}) > 1 for k in range(0, found.devices - size + 1, size))
    several = sum(count for count, _ in nodes) > 1
    assert (reach(found, size, 1).slowest.name == "fabric") == (several and cut)


def test_a_node_of_six_does_not_hold_every_group_of_four() -> None:
    found = cluster([(4, 6)])
    assert reach(found, 4, 1).members == ((found.tiers[0], 2), (found.tiers[1], 4))
    assert reach(found, 4, 1, world=4).slowest.name == "node"
    assert reach(found, 3, 1).slowest.name == "node"


def test_nodes_of_very_many_kinds_take_the_most_spread_group() -> None:
    odd = cluster([(1, 6 + k % 2) for k in range(40)])
    assert reach(odd, 4, 1).members == ((odd.tiers[1], 4),)
    even = cluster([(1, 4 + 4 * (k % 2)) for k in range(40)])
    assert reach(even, 4, 1).slowest.name == "node"


def astuple_of(one: Crossing) -> tuple[str, int, int, int]:
    return one.tier.name, one.inside, one.units, one.groups


def test_two_axes_that_leave_by_the_same_cards_share_them() -> None:
    found = cluster([(16, 8)])
    laid_out = shares(found, Mesh(data=8, tensor=4), pipeline=4)
    data, stages = laid_out.of("data"), laid_out.of("pipeline")
    assert data is not None
    assert stages is not None
    assert [(one.tier.name, one.inside, one.units, one.groups) for one in data.crossings] == [
        ("node", 1, 2, 1),
        ("fabric", 2, 4, 4),
    ]
    assert [(one.tier.name, one.inside, one.units, one.groups) for one in stages.crossings] == [("fabric", 1, 4, 8)]
    assert [port.tier.name for port in laid_out.contended] == ["node", "fabric"]
    port = laid_out.contended[-1]
    assert (port.tier.name, port.devices, port.rate, port.axes) == ("fabric", 8, 8 * 25e9, (("data", 4), ("pipeline", 8)))
    assert data.crossings[-1].group_rate == port.share("data", ["data"]) == 50e9
    assert port.share("data", ["data", "pipeline"]) == pytest.approx(8 * 25e9 / 12)


def test_the_whole_of_a_large_cluster_is_shared_without_its_ranks() -> None:
    found = cluster([(2**17, 8)])
    laid_out = shares(found, Mesh(data=2**15, tensor=8), pipeline=4)
    (port,) = [port for port in laid_out.ports if port.tier.name == "fabric"]
    assert dict(port.axes) == {"data": 8, "pipeline": 8}


@given(
    st.sampled_from((Mesh(4, 2), Mesh(2, 4), Mesh(8, 2, 2), Mesh(2, 8, 1), Mesh(4, 4, 2))),
    st.sampled_from((1, 2, 4)),
    st.fixed_dictionaries({axis: st.integers(0, 50) for axis in DEFAULT_ORDER}),
    st.sampled_from((4, 6, 8)),
)
def test_no_order_puts_fewer_bytes_on_the_slow_tier_than_the_one_found(
    mesh: Mesh, pipeline: int, sizes: dict[str, int], per_node: int
) -> None:
    found = cluster([(64, per_node)], 2)
    best = best_order(found, mesh, sizes, pipeline)
    assert best == best_order(found, mesh, dict(reversed(sizes.items())), pipeline)
    for order in permutations(DEFAULT_ORDER):
        laid_out = shares(found, mesh, order, pipeline)
        slow = [(sizes[one.axis], one.crossing("fabric")) for one in laid_out.axes]
        spent = sum(size / c.inside * (c.units - 1) / c.units for size, c in slow if c is not None)
        assert dict(best.bytes_by_tier)["fabric"] <= spent + 1e-9


def test_the_order_with_most_traffic_inside_is_found() -> None:
    found = cluster([(4, 8)])
    heavy = {"tensor": 100.0, "data": 1.0, "pipeline": 0.1}
    assert best_order(found, Mesh(data=2, tensor=8), heavy, 2).order[0] == "tensor"
    assert best_order(found, Mesh(data=8, tensor=4), {"data": 100.0, "tensor": 1.0}).order[0] == "data"


@pytest.mark.parametrize(
    ("mesh", "order", "message"),
    [
        (Mesh(data=64), DEFAULT_ORDER, "spans 64 devices, the cluster has 32"),
        (Mesh(data=8), ("data", "data"), "names 'data' twice"),
        (Mesh(data=8), ("rows",), "no such axis"),
    ],
)
def test_what_cannot_be_placed_says_why(mesh: Mesh, order: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shares(cluster([(4, 8)]), mesh, order)
