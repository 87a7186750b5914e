"""A model that is an operator graph alone, as what plans, prices and searches count by: its layers, and each at a size of batch.

It stands where shapes of a family would: it has `layers`, and neither experts nor a tied table of the family's kind; whoever asks
it for a width of the family gets an error, never a number. Nothing here knows layouts, devices or plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from .graph import OperatorGraph
from .layering import Layer, Layering, layer_graph, layering
from .naming import plain_dim
from .operator import Kind, Operator, Role, flops
from .repeats import Segment, alike

#: Sequences for which layers are told apart and FLOPs counted.
REFERENCE = 2
BATCH = "batch"


class LayerAt(NamedTuple):
    """One layer for a number of sequences. `kind`: the first layer that is like it, itself where there is none before it."""

    graph: OperatorGraph
    entering: tuple[str, ...]
    leaving: tuple[str, ...]
    kind: int


class GraphModel:
    """A graph with its layers. `build` makes it for a number of sequences, the structure always the same."""

    #: What the family's shapes would say of routed experts: a graph's are operators like others.
    moe = None
    family = "operator graph"

    def __init__(
        self, build: Callable[[int], OperatorGraph], called: Mapping[str, str] | None = None, name: str = "",
        layers: Layering | None = None,
    ) -> None:  # fmt: skip
        self._build, self._called, self.name, self._layering = build, dict(called or {}), name, layers
        self._graphs: dict[int, OperatorGraph] = {}
        self._layers: dict[tuple[int, int], LayerAt] = {}
        self._kinds: dict[int, list[int]] = {}
        self._crossings: dict[tuple[int, int], tuple[tuple[str, int, tuple[int, ...]], ...]] = {}
        self._signatures: dict[tuple[int, int, int], int] = {}
        self._numbers: dict[object, int] = {}

    def at(self, sequences: int) -> OperatorGraph:
        """The whole graph for so many sequences."""
        found = self._graphs.get(sequences)
        if found is None:
            found = self._graphs[sequences] = self._build(sequences)
        return found

    @cached_property
    def layering(self) -> Layering:
        """The layers, recognised; those that it was made with, where there are some."""
        return self._layering or layering(self.at(REFERENCE))

    @property
    def layers(self) -> int:
        """How many layers plans are made of."""
        return self.layering.count

    @cached_property
    def parameters(self) -> int:
        """All parameters, a tensor that several operators use once."""
        return self.at(REFERENCE).parameters

    @cached_property
    def forward_flops(self) -> float:
        """Forward FLOPs a sequence, attention counted whole (Chowdhery et al. 2022, PaLM, arXiv 2204.02311, appendix B)."""
        graph = self.at(REFERENCE)
        return sum(flops(replace(one, causal=False), graph.tensors) for one in graph.operators) / REFERENCE

    @cached_property
    def layer_flops(self) -> tuple[float, ...]:
        """Forward FLOPs a sequence of each layer, attention counted as it is masked."""
        graph = self.at(REFERENCE)
        return tuple(
            sum(flops(graph.operators[at], graph.tensors) for at in one.operators) / REFERENCE for one in self.layering.layers
        )

    def layer_parameters(self, index: int) -> int:
        """Parameters that a layer uses, those that it shares with others included."""
        return self.layer(index, REFERENCE).graph.parameters

    @cached_property
    def kinds_of_operators(self) -> frozenset[Kind]:
        """The kinds of operators that there are."""
        return frozenset(one.kind for one in self.at(REFERENCE).operators)

    @cached_property
    def shared(self) -> dict[str, tuple[int, ...]]:
        """The parameters that several layers use, with those layers."""
        graph, found = self.at(REFERENCE), dict[str, dict[int, None]]()
        for k, layer in enumerate(self.layering.layers):
            for at in layer.operators:
                for use in graph.operators[at].parameters:
                    found.setdefault(use.tensor, {})[k] = None
                for use in graph.operators[at].inputs:
                    if graph.tensors[use.tensor].role is Role.PARAMETER:
                        found.setdefault(use.tensor, {})[k] = None
        return {name: tuple(rows) for name, rows in found.items() if len(rows) > 1}

    @property
    def tied_embeddings(self) -> bool:
        """Whether stages may share a parameter."""
        return bool(self.shared)

    def kinds(self, sequences: int) -> list[int]:
        """For each layer the first that is like it, entering tensors and batch included."""
        found = self._kinds.get(sequences)
        if found is None:
            graph = self.at(sequences)
            rows = [_segment(graph, one) for one in self.layering.layers]
            twins = alike(graph, rows)
            found = [k if twin is None else twin.first for k, twin in enumerate(twins)]
            # Memories have no place in a segment: what crosses besides the carry has to be as large.
            for k, one in enumerate(self.layering.layers):
                other = self.layering.layers[found[k]]
                if self._crossing(graph, one) != self._crossing(graph, other):
                    found[k] = k
            self._kinds[sequences] = found
        return found

    def _crossing(self, graph: OperatorGraph, layer: Layer) -> list[list[tuple[int, ...]]]:
        return [[graph.tensors[name].sizes for name in names] for names in (layer.entering, layer.leaving)]

    def layer(self, index: int, sequences: int, *, named: bool = False) -> LayerAt:
        """Layer `index` for so many sequences, as a graph of its own: that of the first layer like it, unless `named`."""
        kind = index if named else self.kinds(sequences)[index]
        found = self._layers.get((kind, sequences))
        if found is None:
            graph, one = self.at(sequences), self.layering.layers[kind]
            found = LayerAt(layer_graph(graph, one), one.entering, one.leaving, kind)
            self._layers[kind, sequences] = found
        return found

    def crossing(self, index: int, sequences: int) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """(tensor, bytes, sizes) of what leaves layer `index` and enters the next, the carry first."""
        found = self._crossings.get((index, sequences))
        if found is None:
            graph = self.at(sequences)
            names = self.layering.layers[index].leaving
            found = tuple((name, graph.tensors[name].bytes, graph.tensors[name].sizes) for name in names)
            self._crossings[index, sequences] = found
        return found

    def signature(self, first: int, last: int, sequences: int) -> int:
        """A number that is the same for runs of layers that are alike: as many of each kind, as much that crosses at the ends.

        What a run costs and keeps depends on nothing else.
        """
        key = first, last, sequences
        found = self._signatures.get(key)
        if found is None:
            kinds = self.kinds(sequences)
            count: dict[int, int] = {}
            for k in kinds[first : last + 1]:
                count[k] = count.get(k, 0) + 1
            ends = [
                tuple(size for _, size, _ in self.crossing(at, sequences)) if 0 <= at < self.layers - 1 else ()
                for at in (first - 1, last)
            ]
            memories = {name: size for at in range(max(0, first - 1), last) for name, size, _ in self.crossing(at, sequences)[1:]}
            shared = tuple(name for name, rows in self.shared.items() if any(first <= at <= last for at in rows))
            what = (sequences, tuple(sorted(count.items())), *ends, tuple(sorted(memories.items())), shared, first == 0)
            found = self._signatures[key] = self._numbers.setdefault(what, len(self._numbers))
        return found

    def is_batch(self, loop: str) -> bool:
        """Whether a loop runs over the sequences of a microbatch."""
        return (self._called.get(loop) or plain_dim(loop)) == BATCH

    def is_sequence(self, loop: str) -> bool:
        """Whether a loop runs over the tokens of a sequence."""
        return (self._called.get(loop) or plain_dim(loop)) == "sequence"

    @cached_property
    def batched(self) -> bool:
        """Whether the batch can be told: every operator with parameters and activations runs over it."""
        graph = self.at(REFERENCE)
        rows = [one for one in graph.operators if one.parameters and one.inputs]
        return bool(rows) and all(self.batch_of(one) for one in rows)

    def batch_of(self, operator: Operator) -> str:
        """The loop of an operator that runs over the sequences; "" for none."""
        return next((loop.name for loop in operator.loops if self.is_batch(loop.name)), "")

    @cached_property
    def widths(self) -> frozenset[int]:
        """Sizes of the dims of parameters that products multiply with."""
        return frozenset(size for sizes in self._weights for size in sizes)

    @cached_property
    def _weights(self) -> list[tuple[int, ...]]:
        """Sizes of the weights and tables."""
        graph = self.at(REFERENCE)
        rows = [use for one in graph.operators for use in (*one.parameters, *one.inputs) if use.role in ("weight", "table")]
        names = dict.fromkeys(use.tensor for use in rows if graph.tensors[use.tensor].role is Role.PARAMETER)
        return [graph.tensors[name].sizes for name in names]

    def divides(self, degree: int, share: float) -> bool:
        """Whether a degree divides some dim of the weights that make up `share` of their elements."""
        there = sum(prod(sizes) for sizes in self._weights if any(size % degree == 0 for size in sizes))
        return there >= share * sum(map(prod, self._weights)) > 0


def _segment(graph: OperatorGraph, layer: Layer) -> Segment:
    """A layer as a segment: its operators, and its carries."""
    return Segment(layer.operators, (layer.entering or ("",))[0], (layer.leaving or ("",))[0])
