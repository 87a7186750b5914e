"""The layers of any operator graph: where it may be cut into stages, what crosses each cut, and which layers are alike.

Vocabulary: a *cut* is a place in the order of operators between which and the next one few tensors are alive; the tensor that
the operators right behind it go on from is its *carry*, others that cross it (an encoder's output, a long skip) are *memories*.
A *layer* is what lies between two neighbouring cuts that are kept: one period of what repeats, or a piece of its own where
nothing does; a graph in which nothing repeats is one layer. What is small and stands between layers goes with the next one, an
embedding with the first, a head with the last. Nothing here knows layouts, devices or costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .building import keeping
from .graph import OperatorGraph, graph_of
from .operator import Kind, Loop, Operator, Role, Use, flops
from .repeats import Segment, alike

#: Layers that a plan is made of at most; of more, neighbours are joined.
MOST_LAYERS = 128
#: Pieces of more operators than this are looked at again with their longest-lived tensor set aside.
LONG_PIECE = 40
#: Tensors that may be set aside, one after the other, and pieces in a period, at most.
MOST_MEMORIES, MOST_PERIOD = 16, 8
#: A piece between layers with less than this share of a middle layer's FLOPs is no layer of its own.
SMALL = 0.25


@dataclass(frozen=True, slots=True)
class Layer:
    """Operators (indices into the graph, in order) of one layer, and the tensors that enter and leave it, the carry first."""

    operators: tuple[int, ...]
    entering: tuple[str, ...]
    leaving: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layering:
    """The layers of a graph. `joined`: neighbours that were put together, 1 where none were. `recognised`: as they were found."""

    layers: tuple[Layer, ...]
    joined: int
    recognised: int

    @property
    def count(self) -> int:
        """How many layers a plan is made of."""
        return len(self.layers)

    @property
    def operators(self) -> int:
        """The operators of a layer in the middle."""
        return len(self.layers[(self.count - 1) // 2].operators)


def layering(graph: OperatorGraph) -> Layering:
    """The layers of a graph, recognised by structure."""
    order = _order(graph)
    pieces = _pieces(graph, order)
    twins = alike(graph, [_inside(graph, order, one) for one in pieces])
    kinds = [k if twin is None else twin.first for k, twin in enumerate(twins)]
    bounds = _joined_small(graph, order, pieces, kinds)
    starts = [pieces[k].start for k in bounds] + [len(order)]
    found = len(starts) - 1
    each = -(-found // MOST_LAYERS)
    starts = [*starts[:-1:each], starts[-1]]
    live = _live(graph, order)
    carries = {one.stop: one.leaving for one in pieces}
    layers = []
    for first, stop in pairwise(starts):
        ends = [_crossing(live, at, carries.get(at, "")) if 0 < at < len(order) else () for at in (first, stop)]
        layers.append(Layer(tuple(order[first:stop]), ends[0], ends[1]))
    return Layering(tuple(layers), each, found)


def layer_graph(graph: OperatorGraph, layer: Layer) -> OperatorGraph:
    """The operators of one layer with a source for what enters it and a sink for what leaves it, under the tensors' own names."""
    operators = [end_of(graph, name, Kind.INPUT) for name in layer.entering]
    operators += [graph.operators[k] for k in layer.operators]
    made = {use.tensor for one in operators for use in one.outputs}
    operators += [end_of(graph, name, Kind.OUTPUT) for name in layer.leaving if name in made and name not in layer.entering]
    used = {use.tensor for one in operators for use in one.uses}
    cut = graph_of([one for name, one in graph.tensors.items() if name in used], operators)
    return OperatorGraph(cut.tensors, keeping(cut.operators, cut.tensors))


def end_of(graph: OperatorGraph, tensor: str, kind: Kind) -> Operator:
    """A source or a sink of a tensor, whose dims are its loops."""
    dims = tuple(f"dim {k}" for k in range(len(graph.tensors[tensor].sizes)))
    loops = tuple(Loop(name, size) for name, size in zip(dims, graph.tensors[tensor].sizes, strict=True))
    use = Use(tensor, dims)
    if kind is Kind.INPUT:
        return Operator(f"{tensor}.source", kind, loops, outputs=(use,))
    return Operator(f"{tensor}.sink", kind, loops, inputs=(use,))


# Order.


def _order(graph: OperatorGraph) -> list[int]:
    """The operators in an order that keeps few tensors alive: of what an operator reads, the deepest is worked out first, and
    what keeps nothing alive by waiting comes right before it is first read.
    """
    made = graph.producers
    reads = [
        list(dict.fromkeys(made[use.tensor] for use in one.inputs if use.tensor in made)) for one in graph.operators
    ]
    depth = [0] * len(reads)
    read = [False] * len(reads)
    for k, before in enumerate(reads):
        for one in before:
            depth[k] = max(depth[k], depth[one] + 1)
            read[one] = True
    order: list[int] = []
    done = [False] * len(reads)
    for end in (k for k in range(len(reads)) if not read[k]):
        stack = [(end, False)]
        while stack:
            k, ready = stack.pop()
            if ready:
                order.append(k)
            elif not done[k]:
                done[k] = True
                stack.append((k, True))
                stack += [(one, False) for one in sorted(reads[k], key=lambda at: (depth[at], -at)) if not done[one]]
    return _late(graph, order)


def _late(graph: OperatorGraph, order: Sequence[int]) -> list[int]:
    """Operators whose activations are read after their first reader anyhow, or that read none, right before that reader."""
    tensors = graph.tensors
    place = {k: at for at, k in enumerate(order)}
    readers = {name: [place[k] for k, _ in rows] for name, rows in graph.consumers.items()}
    before: dict[int, list[int]] = {}
    moved: set[int] = set()
    for k in reversed(order):
        operator = graph.operators[k]
        first = min((at for use in operator.outputs for at in readers.get(use.tensor, ())), default=-1)
        held = [use.tensor for use in operator.inputs if tensors[use.tensor].role is Role.ACTIVATION]
        if first > place[k] + 1 and all(max(readers[name]) > first for name in held):
            before.setdefault(order[first], []).append(k)
            moved.add(k)
    found: list[int] = []

    def put(k: int) -> None:
        for one in reversed(before.get(k, [])):
            put(one)
        found.append(k)

    for k in order:
        if k not in moved:
            put(k)
    return found


# Pieces.


@dataclass(frozen=True, slots=True)
class _Piece:
    """Positions `start` to `stop` (exclusive) of the order, and the carry behind them; "" at the end of the graph."""

    start: int
    stop: int
    entering: str
    leaving: str


def _live(graph: OperatorGraph, order: Sequence[int]) -> list[frozenset[str]]:
    """[position] what is made before it and read at it or later; tokens, labels and masks are at hand everywhere."""
    last: dict[str, int] = {}
    for at, k in enumerate(order):
        for use in graph.operators[k].inputs:
            last[use.tensor] = at
    live: set[str] = set()
    found = [frozenset[str]()]
    for at, k in enumerate(order):
        operator = graph.operators[k]
        if operator.kind is not Kind.INPUT or graph.tensors[operator.outputs[0].tensor].role is Role.ACTIVATION:
            live |= {use.tensor for use in operator.outputs if last.get(use.tensor, -1) > at}
        live -= {use.tensor for use in operator.inputs if last[use.tensor] <= at}
        found.append(frozenset(live))
    return found


def _crossing(live: Sequence[frozenset[str]], at: int, carry: str) -> tuple[str, ...]:
    """What crosses a cut, the carry first."""
    return (*([carry] if carry in live[at] else []), *sorted(live[at] - {carry}))


def _pieces(graph: OperatorGraph, order: Sequence[int]) -> list[_Piece]:
    """The order cut wherever one activation that several operators read is all that goes on, memories apart."""
    live = _live(graph, order)
    cuts = dict(_cuts(graph, order, live, 0, len(order), frozenset()))
    todo = [frozenset[str]()]
    while todo:
        aside = todo.pop()
        if len(aside) == MOST_MEMORIES:
            continue
        edges = [0, *sorted(cuts), len(order)]
        for start, stop in pairwise(edges):
            if stop - start <= LONG_PIECE:
                continue
            lives: dict[str, int] = {}
            for at in range(start + 1, stop):
                for name in live[at] - aside:
                    lives[name] = lives.get(name, 0) + 1
            longest = max(sorted(lives), key=lambda name: lives[name], default="")
            if not longest or 2 * lives[longest] < stop - start:
                continue
            more = dict(_cuts(graph, order, live, start, stop, aside | {longest}))
            if len(more) > 1:
                cuts |= more
                todo.append(aside | {longest})
    cuts |= _plain_cuts(graph, order, live, cuts)
    edges = [0, *sorted(cuts), len(order)]
    return [_Piece(a, b, cuts.get(a, ""), cuts.get(b, "")) for a, b in pairwise(edges)]


def _plain_cuts(
    graph: OperatorGraph, order: Sequence[int], live: Sequence[frozenset[str]], cuts: Mapping[int, str]
) -> dict[int, str]:
    """Cuts whose carry one operator alone reads, as that of the last layer before a head: it has as many dims as the carry
    before it, and its maker is of the same kind.
    """

    def like(name: str) -> tuple[object, ...]:
        maker = graph.operators[graph.producers[name]]
        return maker.kind, maker.linear, len(maker.inputs), len(graph.tensors[name].sizes)

    found = {}
    for start, stop in pairwise([*sorted(cuts), len(order)]):
        carry = cuts[start]
        memories = live[start] - {carry}
        for at in range(start + 1, stop):
            rest = live[at] - memories
            if len(rest) == 1 and all(one in graph.producers and like(one) == like(carry) for one in rest):
                (name,) = rest
                if graph.producers[name] == order[at - 1]:
                    found[at] = name
    return found


def _cuts(
    graph: OperatorGraph, order: Sequence[int], live: Sequence[frozenset[str]], start: int, stop: int, aside: frozenset[str]
) -> list[tuple[int, str]]:
    """(position, carry) of the cuts inside a stretch of the order, `aside` not counted among what is alive."""
    found = []
    for at in range(start + 1, stop):
        operator = graph.operators[order[at - 1]]
        rest = live[at] - aside
        if len(rest) != 1 or operator.kind is Kind.INPUT:
            continue
        (name,) = rest
        several = len({reader for reader, _ in graph.consumers.get(name, ())}) > 1
        if several and graph.tensors[name].role is Role.ACTIVATION and any(use.tensor == name for use in operator.outputs):
            found.append((at, name))
    return found


def _inside(graph: OperatorGraph, order: Sequence[int], piece: _Piece) -> Segment:
    """A piece without what enters and leaves the graph in it: a first layer is like the next though it has a source."""
    rows = {k: graph.operators[k] for k in order[piece.start : piece.stop]}
    inside = tuple(k for k, one in rows.items() if one.kind not in (Kind.INPUT, Kind.OUTPUT))
    if not inside:
        return Segment(tuple(rows), piece.entering, piece.leaving)
    made = [use.tensor for one in rows.values() if one.kind is Kind.INPUT for use in one.outputs]
    made = [name for name in made if graph.tensors[name].role is Role.ACTIVATION]
    read = [use.tensor for one in rows.values() if one.kind is Kind.OUTPUT for use in one.inputs]
    entering = piece.entering or (made[0] if len(made) == 1 else "")
    return Segment(inside, entering, piece.leaving or (read[0] if len(read) == 1 else ""))


# Layers of pieces.


def _periods(kinds: list[int], work: Sequence[int]) -> list[tuple[int, int, bool]]:
    """(first piece, piece after the last, whether it repeats) of each unit: the longest runs of one period first.

    Of several periods that cover as many pieces the shortest is taken.
    """
    units: list[tuple[int, int, bool]] = []
    at, count = 0, len(kinds)
    while at < count:
        best = (0, 1)
        for period in range(1, min(MOST_PERIOD, (count - at) // 2) + 1):
            end = at + period
            while end + period <= count and kinds[end : end + period] == kinds[at : at + period]:
                end += period
            if end - at > period and end - at > best[0]:
                best = (end - at, period)
        covered, period = best
        if covered:
            # A run that ends within a period began within one, whose first pieces are unlike the others' (a table of relative
            # positions): the layers are those that end with it.
            rest = next((r for r in range(period) if kinds[at + covered + r : at + covered + r + 1] != [kinds[at + r]]), 0)
            lead = period - rest if rest else 0
            if rest and _alike_in_work(work, units, lead, at + rest, at + period):
                del units[-lead:]
                units.append((at - lead, at + rest, True))
                at += rest
            # What a period begins with may come in it more than once: each is a layer.
            inside = [k for k in range(period) if kinds[at + k] == kinds[at]]
            ends = [*inside[1:], period]
            for k in range(at, at + covered, period):
                units += [(k + a, k + b, True) for a, b in zip(inside, ends, strict=True)]
            at += covered
        else:
            units.append((at, at + 1, False))
            at += 1
    return units


def _alike_in_work(work: Sequence[int], units: Sequence[tuple[int, int, bool]], lead: int, first: int, stop: int) -> bool:
    """Whether the last `lead` pieces taken are single ones, each with about the FLOPs of those from `first` to `stop`."""
    rows = units[-lead:]
    if len(rows) < lead or any(repeats for _, _, repeats in rows):
        return False
    pairs = ((work[one], work[k]) for (one, _, _), k in zip(rows, range(first, stop), strict=True))
    return all(here <= 2 * there and there <= 2 * here for here, there in pairs)


def _joined_small(
    graph: OperatorGraph, order: Sequence[int], pieces: Sequence[_Piece], kinds: list[int]
) -> list[int]:
    """The pieces that layers begin with: what does not repeat and is small goes with the next layer, at the end with the last."""
    each = [sum(flops(graph.operators[k], graph.tensors) for k in order[one.start : one.stop]) for one in pieces]
    units = _periods(kinds, each)
    if not any(repeats for _, _, repeats in units):
        return [0]
    work = [sum(each[first:stop]) for first, stop, _ in units]
    middle = sorted(one for one, unit in zip(work, units, strict=True) if unit[2])
    usual = middle[len(middle) // 2]

    def layer(k: int) -> bool:
        first, stop, repeats = units[k]
        rows = [graph.operators[at].kind for at in order[pieces[first].start : pieces[stop - 1].stop]]
        return repeats or (work[k] >= SMALL * usual and not {Kind.EMBEDDING, Kind.CROSS_ENTROPY} & set(rows))

    # The last piece, where it is unlike the others, is a head.
    tail = 0 if units[-1][2] else 1
    kept = [k for k in range(len(units) - tail) if layer(k)]
    return [0, *(units[before][1] for before in kept[:-1])]
