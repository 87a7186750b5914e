"""Repeated blocks of an operator graph, recognised by structure: names, the order of operators and of dims mean nothing.

Vocabulary: a *cut* is a tensor through which everything passes; a *segment* is what lies between two cuts. Segments are compared
by colour refinement (Weisfeiler and Lehman 1968) over operators, loops, tensors and dims; what looks alike is matched node by
node and checked, so that a coincidence of colours is never taken for a repetition. Nothing here knows layouts or costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from .graph import OperatorGraph
from .operator import WHOLE, Kind, Operator, Role, Use

Node = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators (indices into the graph) between the tensors `entering` and `leaving`; "" at either end of the graph."""

    operators: tuple[int, ...]
    entering: str
    leaving: str


@dataclass(frozen=True, slots=True)
class Alike:
    """How a segment repeats the segment of index `first`: its operators, loops and tensors, as those of that one.

    `operators[k]` is the operator that plays the part of the first one's k-th, `loops[k]` maps loop names of the first one's to
    its own. `tensors` maps each tensor of the first one to its own, with the dim that plays the part of each dim.
    """

    first: int
    operators: tuple[int, ...]
    loops: tuple[dict[str, str], ...]
    tensors: dict[str, tuple[str, tuple[int, ...]]]


def segments(graph: OperatorGraph) -> list[Segment]:
    """The graph cut wherever a single activation, read by more than one operator, is all that goes on."""
    order = _depth_first(graph)
    last: dict[str, int] = {}
    for at, k in enumerate(order):
        for use in graph.operators[k].inputs:
            last[use.tensor] = at
    found: list[Segment] = []
    live: set[str] = set()
    here: list[int] = []
    entering = ""
    for at, k in enumerate(order):
        operator = graph.operators[k]
        here.append(k)
        live |= {use.tensor for use in operator.outputs if last.get(use.tensor, -1) > at}
        live -= {use.tensor for use in operator.inputs if last[use.tensor] <= at}
        if len(live) == 1 and operator.kind is not Kind.INPUT:
            (name,) = live
            several = len({reader for reader, _ in graph.consumers.get(name, ())}) > 1
            if several and name != entering and graph.tensors[name].role is Role.ACTIVATION and graph.producers[name] in here:
                found.append(Segment(tuple(here), entering, name))
                here, entering = [], name
    if here:
        found.append(Segment(tuple(here), entering, ""))
    return found


def _depth_first(graph: OperatorGraph) -> list[int]:
    """The operators, each right before it is first needed, what has most operators before it first.

    Whatever the order in which they are written, a tower is done before what stands beside it has begun.
    """
    before = [
        [graph.producers[use.tensor] for use in operator.inputs if use.tensor in graph.producers]
        for operator in graph.operators
    ]
    depth: list[int] = []
    for rows in before:
        depth.append(1 + max((depth[k] for k in rows), default=0))
    read = {k for rows in before for k in rows}
    order: list[int] = []
    placed: set[int] = set()
    for sink in sorted((k for k in range(len(before)) if k not in read), key=depth.__getitem__):
        stack = [sink]
        while stack:
            k = stack[-1]
            left = [one for one in before[k] if one not in placed]
            if left:
                stack.append(max(left, key=depth.__getitem__))
                continue
            stack.pop()
            if k not in placed:
                placed.add(k)
                order.append(k)
    return order


@dataclass(slots=True)
class _Colours:
    """Numbers for colours, the same for all segments of a graph."""

    known: dict[Hashable, int] = field(default_factory=dict)

    def of(self, what: Hashable) -> int:
        return self.known.setdefault(what, len(self.known))


@dataclass(slots=True)
class _Form:
    """A segment as labelled nodes with labelled neighbours, and their colours."""

    neighbours: dict[Node, list[tuple[int, Node]]]
    colours: dict[Node, int]

    def refine(self, known: _Colours) -> None:
        """Refine until the number of colours stays."""
        count = len(set(self.colours.values()))
        while True:
            self.colours = {
                node: known.of((self.colours[node], tuple(sorted((label, self.colours[other]) for label, other in rows))))
                for node, rows in self.neighbours.items()
            }
            now = len(set(self.colours.values()))
            if now == count:
                return
            count = now

    def signature(self) -> tuple[tuple[int, int], ...]:
        """How many nodes have each colour."""
        return tuple(sorted(Counter(self.colours.values()).items()))


def _form(graph: OperatorGraph, segment: Segment, known: _Colours) -> _Form:
    neighbours: dict[Node, list[tuple[int, Node]]] = {}
    colours: dict[Node, int] = {}

    def join(a: Node, b: Node, label: Hashable) -> None:
        number = known.of(label)
        neighbours.setdefault(a, []).append((number, b))
        neighbours.setdefault(b, []).append((number, a))

    for k in segment.operators:
        operator = graph.operators[k]
        me: Node = ("operator", str(k))
        colours[me] = known.of((operator.kind, operator.causal, operator.linear, len(operator.loops)))
        neighbours.setdefault(me, [])
        for loop in operator.loops:
            node: Node = ("loop", str(k), loop.name)
            colours[node] = known.of(("loop", loop.size, loop.split, loop.halo))
            join(me, node, "loop of")
        for way, use in _ways(operator):
            name: Node = ("tensor", use.tensor)
            tensor = graph.tensors[use.tensor]
            if name not in colours:
                at = "in" if use.tensor == segment.entering else "out" if use.tensor == segment.leaving else ""
                colours[name] = known.of((tensor.role, tensor.dtype, at, len(tensor.sizes)))
                for d, size in enumerate(tensor.sizes):
                    dim: Node = ("dim", use.tensor, str(d))
                    colours[dim] = known.of(("dim", size))
                    join(name, dim, "dim of")
            kept = use.tensor in operator.keeps
            join(me, name, (way, use.role, use.repeats, kept))
            for d, loop_name in enumerate(use.loops):
                if loop_name != WHOLE:
                    join(("loop", str(k), loop_name), ("dim", use.tensor, str(d)), (way, use.role))
    return _Form(neighbours, colours)


def _ways(operator: Operator) -> Iterable[tuple[str, Use]]:
    for way, uses in (("in", operator.inputs), ("parameter", operator.parameters), ("out", operator.outputs)):
        for use in uses:
            yield way, use


def alike(graph: OperatorGraph, parts: list[Segment]) -> list[Alike | None]:
    """For each segment how it repeats an earlier one; None for the first of its kind."""
    known = _Colours()
    found: list[Alike | None] = [None] * len(parts)
    written: dict[Hashable, int] = {}
    forms: dict[int, _Form] = {}
    coarse: dict[Hashable, list[int]] = {}
    paired: list[tuple[int, int]] = []
    for k, segment in enumerate(parts):
        # Most graphs write their layers alike: then nothing needs to be compared but the writing.
        before = written.setdefault(_as_written(graph, segment), k)
        if before < k:
            paired.append((before, k))
            continue
        forms[k] = _form(graph, segment, known)
        coarse.setdefault(forms[k].signature(), []).append(k)
    for group in coarse.values():
        # What nothing else resembles, whole towers among it, is like nothing.
        if len(group) == 1:
            continue
        firsts: dict[Hashable, list[int]] = {}
        for k in group:
            forms[k].refine(known)
            same = firsts.setdefault(forms[k].signature(), [])
            for first in same:
                found[k] = _matched(graph, parts[first], forms[first], parts[k], forms[k], first, known)
                if found[k] is not None:
                    break
            if found[k] is None:
                same.append(k)
    for before, k in paired:
        found[k] = _paired(graph, parts[before], parts[k], before, found[before])
    return found


def _as_written(graph: OperatorGraph, segment: Segment) -> Hashable:
    """The segment with names replaced by numbers in the order in which they are met."""
    tensors: dict[str, int] = {segment.entering: 0} if segment.entering else {}
    rows: list[Hashable] = []
    for k in segment.operators:
        operator = graph.operators[k]
        loops = {loop.name: at for at, loop in enumerate(operator.loops)}
        uses = []
        for way, use in _ways(operator):
            tensor = graph.tensors[use.tensor]
            number = tensors.setdefault(use.tensor, len(tensors))
            over = tuple(loops.get(name, -1) for name in use.loops)
            kept = use.tensor in operator.keeps
            uses.append((way, number, tensor.sizes, tensor.dtype, tensor.role, over, use.role, use.repeats, kept))
        sizes = tuple((loop.size, loop.split, loop.halo) for loop in operator.loops)
        rows.append((operator.kind, operator.causal, operator.linear, sizes, tuple(uses)))
    return tuple(rows), bool(segment.entering), tensors.get(segment.leaving, -1)


def _paired(graph: OperatorGraph, one: Segment, two: Segment, at: int, seen: Alike | None) -> Alike:
    """The correspondence of two segments that are written alike, in terms of the first of their kind."""
    own = dict(zip(one.operators, two.operators, strict=True))
    loops = {
        i: {a.name: b.name for a, b in zip(graph.operators[i].loops, graph.operators[j].loops, strict=True)}
        for i, j in own.items()
    }
    names = {
        a.tensor: b.tensor
        for i, j in own.items()
        for a, b in zip(graph.operators[i].uses, graph.operators[j].uses, strict=True)
    }
    if seen is None:
        same = {a: (b, tuple(range(len(graph.tensors[a].sizes)))) for a, b in names.items()}
        return Alike(at, two.operators, tuple(loops[k] for k in one.operators), same)
    return Alike(
        seen.first,
        tuple(own[k] for k in seen.operators),
        tuple(
            {first: loops[k][name] for first, name in part.items()} for k, part in zip(seen.operators, seen.loops, strict=True)
        ),
        {first: (names[name], dims) for first, (name, dims) in seen.tensors.items()},
    )


def _matched(
    graph: OperatorGraph, one: Segment, form: _Form, two: Segment, other: _Form, first: int, known: _Colours
) -> Alike | None:
    """The node-by-node correspondence of two segments of equal colours; None where there is none.

    Nodes of one colour are told apart one pair at a time; symmetric ones may be paired either way.
    """
    a, b = _Form(form.neighbours, dict(form.colours)), _Form(other.neighbours, dict(other.colours))
    while True:
        of_b: dict[int, list[Node]] = {}
        for node, colour in b.colours.items():
            of_b.setdefault(colour, []).append(node)
        of_a: dict[int, list[Node]] = {}
        for node, colour in a.colours.items():
            of_a.setdefault(colour, []).append(node)
        if any(len(of_b.get(colour, ())) != len(nodes) for colour, nodes in of_a.items()):
            return None
        tied = next((colour for colour, nodes in of_a.items() if len(nodes) > 1), None)
        if tied is None:
            break
        single = known.of(("told apart", tied))
        a.colours[of_a[tied][0]] = single
        b.colours[of_b[tied][0]] = single
        a.refine(known)
        b.refine(known)
    to = {nodes[0]: of_b[colour][0] for colour, nodes in of_a.items()}
    for node, rows in a.neighbours.items():
        if Counter((label, to[x]) for label, x in rows) != Counter(b.neighbours[to[node]]):
            return None
    operators = tuple(int(to["operator", str(k)][1]) for k in one.operators)
    loops = tuple(
        {loop.name: to["loop", str(k), loop.name][2] for loop in graph.operators[k].loops} for k in one.operators
    )

    tensors = {
        node[1]: (to[node][1], tuple(int(to["dim", node[1], str(d)][2]) for d in range(len(graph.tensors[node[1]].sizes))))
        for node in to
        if node[0] == "tensor"
    }
    return Alike(first, operators, loops, tensors)
