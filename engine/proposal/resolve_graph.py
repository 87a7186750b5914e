"""A graph of a proposal, or of a file that it names: read, checked by building it once, with the place of whatever is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ..document import Document, parse_document, pointer_to
from ..errors import InputError, Place
from ..frozen import dataclass
from ..model.cutting import layers_of
from ..model.described import (
    MICROBATCH,
    SEQUENCE_LENGTH,
    DescribedGraph,
    DescribedOperator,
    Operand,
    Size,
    built,
)
from ..model.families import Family
from ..model.graph import OPERATOR_LIMIT, SIZE_LIMIT, GraphError, OperatorGraph
from ..model.graph_model import REFERENCE
from ..model.layering import Layering
from ..model.operator import Kind
from .load import validate_part
from .schema_graph import GraphOperand, GraphOperator, GraphText

_SIZE: Final = f"a whole number from 1 to 2^40, '{MICROBATCH}', '{SEQUENCE_LENGTH}', or such as '{MICROBATCH} x 4 / 2'"
DOCS: Final = "See 'model.graph' in docs/proposal.md."
#: The shortest sequence, which a graph is checked with where none is stated.
_ONE: Final = 1

At = Callable[[str], Place]


@dataclass(frozen=True, slots=True)
class GraphCase:
    """A graph that can be built, by whom it was stated, and what was counted when it was checked; FLOPs of one sequence."""

    source: DescribedGraph | Family
    path: str
    file: str | None
    operators: int
    parameters: int
    forward_flops: int
    #: Recognised once, for whatever batch and precision: indices of operators and names of tensors are those of every build.
    layering: Layering

    @property
    def layers(self) -> int:
        """How many layers plans are made of."""
        return self.layering.count

    @property
    def layer_operators(self) -> int:
        """The operators of a layer in the middle."""
        return self.layering.operators

    @property
    def family(self) -> str | None:
        """The family that it was named by; None for operators that are given."""
        return None if isinstance(self.source, DescribedGraph) else self.source.family

    @property
    def sequential(self) -> bool:
        """Whether the workload's sequence length says anything of it."""
        if isinstance(self.source, DescribedGraph):
            return any(SEQUENCE_LENGTH in size.words for size in self.source.dims.values())
        return self.source.sequential

    @property
    def called(self) -> dict[str, str]:
        """Dims that run over the sequences of a step, and over the tokens of one, whatever they are called."""
        found: dict[str, str] = {}
        if not isinstance(self.source, DescribedGraph):
            return found
        for name, size in self.source.dims.items():
            if MICROBATCH in size.words:
                found[name] = "batch"
            elif SEQUENCE_LENGTH in size.words:
                found[name] = "sequence"
        return found

    def build(self, batch: int, sequence: int, dtype: str) -> OperatorGraph:
        """The graph of `batch` sequences."""
        if isinstance(self.source, DescribedGraph):
            return built(self.source, batch, sequence, dtype)
        return self.source.graph(batch, sequence, dtype)


def graph_case(source: DescribedGraph | Family, graph: OperatorGraph, path: str, file: str | None) -> GraphCase:
    """The case of a source whose graph was built of `REFERENCE` sequences, with what it counts and its layers."""
    own = sum(1 for one in graph.operators if one.kind not in (Kind.INPUT, Kind.OUTPUT))
    flops = round(graph.forward_flops / REFERENCE)
    return GraphCase(source, path, file, own, graph.parameters, flops, layers_of(graph))


def read_graph(document: Document, base: str, path: str, sequence: int | None) -> GraphCase:
    """The graph at the pointer `base` of a document. Raises InputError with the place of what is wrong."""

    def at(pointer: str) -> Place:
        return document.place(base + pointer)

    data: object = document.data
    for part in base.strip("/").split("/") if base else ():
        assert isinstance(data, dict)
        data = data[part]
    count = len(data["operators"]) if isinstance(data, dict) and isinstance(data.get("operators"), list) else 0
    if count > OPERATOR_LIMIT:
        raise InputError(
            f"the graph has {count:,} operators; at most {OPERATOR_LIMIT:,} are read", place=at("/operators"),
            code="input.graph.size", remedy="Give the graph of some layers of each kind, or of one stage.",
        )  # fmt: skip
    stated = validate_part(GraphText, data, document, base)
    if stated.file is not None:
        raise InputError(
            "a graph that names a 'file' has its other keys there, and its file names no further one",
            place=at("/file"), code="input.graph.file", remedy="Keep 'file', or the graph.",
        )  # fmt: skip
    described, pointers = _described(stated, at)
    try:
        graph = built(described, REFERENCE, sequence or _ONE)
    except GraphError as error:
        raise InputError(
            error.message, place=at(pointers.of(error)), code=error.code, remedy=error.remedy
        ) from None
    return graph_case(described, graph, path, document.name if not base else None)


def graph_document(raw: bytes, name: str) -> tuple[Document, dict[str, object]]:
    """A file with a graph of its own, and its keys."""
    document = parse_document(raw, name)
    if not isinstance(document.data, dict):
        raise InputError(
            "a graph is a mapping with 'dims', 'inputs' and 'operators', or with a 'family'", place=document.place(""),
            code="input.graph.file", remedy=DOCS,
        )  # fmt: skip
    return document, document.data


@dataclass(slots=True)
class _Pointers:
    """Where operators and tensors stand, by name, below the graph."""

    operators: dict[str, str]
    tensors: dict[str, str]
    reads: dict[tuple[str, str], str]

    def of(self, error: GraphError) -> str:
        """The pointer of what an error is about."""
        read = self.reads.get((error.operator, error.tensor))
        if read is not None:
            return read
        if error.code == "input.graph.batch":
            return "/dims"
        return self.operators.get(error.operator) or self.tensors.get(error.tensor) or ""


def _described(stated: GraphText, at: At) -> tuple[DescribedGraph, _Pointers]:
    """The description, and where its parts stand."""
    for key in ("dims", "operators"):
        if not getattr(stated, key):
            raise InputError(f"the graph states no '{key}'", place=at(""), code="input.graph.operator", remedy=DOCS)
    pointers = _Pointers({}, {}, {})
    sizes = {name: _size(name, value, at(pointer_to("dims", name))) for name, value in (stated.dims or {}).items()}

    def declared(section: str, rows: Mapping[str, GraphOperand] | None) -> dict[str, Operand]:
        found = {}
        for name, one in (rows or {}).items():
            pointers.tensors[name] = pointer_to(section, name)
            if one.dims is None or one.from_ is not None:
                raise InputError(
                    f"'{section}.{name}' does not state its dims", place=at(pointer_to(section, name)),
                    code="input.graph.dim", remedy="Write a list of dims, or {dims: [...], dtype: int64}.",
                )  # fmt: skip
            found[name] = Operand(name, tuple(one.dims), one.dtype)
        return found

    inputs, parameters = declared("inputs", stated.inputs), declared("parameters", stated.parameters)
    made: dict[str, tuple[str, ...]] = {name: one.dims or () for name, one in inputs.items()}
    operators = []
    for k, one in enumerate(stated.operators or ()):
        operators.append(_operator(one, f"/operators/{k}", at, pointers, made))
    return DescribedGraph(sizes, inputs, tuple(operators), parameters, stated.dtype), pointers


def _operator(
    one: GraphOperator, here: str, at: At, pointers: _Pointers, made: dict[str, tuple[str, ...]]
) -> DescribedOperator:
    for key in ("name", "kind"):
        if getattr(one, key) is None:
            raise InputError(f"an operator states no '{key}'", place=at(here), code="input.graph.operator", remedy=DOCS)
    name, kind = one.name or "", one.kind or ""
    if name in pointers.operators:
        raise InputError(
            f"two operators are called '{name}'; the first stands in line {at(pointers.operators[name]).line}",
            place=at(f"{here}/name"), code="input.graph.twice", remedy="Give each a name of its own.",
        )  # fmt: skip
    pointers.operators[name] = here
    inputs = []
    for k, read in enumerate(one.inputs or ()):
        if read.from_ is None:
            raise InputError(
                f"input {k} of '{name}' names no tensor", place=at(f"{here}/inputs/{k}"), code="input.graph.operator",
                remedy="Write the name of an input or operator, or {from: NAME, dims: [...]}.",
            )  # fmt: skip
        pointers.reads.setdefault((name, read.from_), f"{here}/inputs/{k}")
        inputs.append(Operand(read.from_, tuple(read.dims) if read.dims is not None else None, read.dtype))
    parameters = {}
    for role, held in (one.parameters or {}).items():
        own = held.from_ or f"{name}:{role}"
        pointers.reads.setdefault((name, own), here + pointer_to("parameters", role))
        parameters[role] = Operand(own, tuple(held.dims) if held.dims is not None else None, held.dtype)
    if one.output is not None and one.outputs is not None:
        raise InputError(
            f"'{name}' states both 'output' and 'outputs'", place=at(f"{here}/outputs"), code="input.graph.operator",
            remedy="Keep one of them.",
        )  # fmt: skip
    results: list[tuple[str, str, GraphOperand]] = []
    if one.outputs is not None:
        results = [(f"{name}.{key}", here + pointer_to("outputs", key), row) for key, row in one.outputs.items()]
    elif one.output is not None:
        results = [(name, f"{here}/output", one.output)]
    outputs = []
    for tensor, pointer, row in results:
        pointers.reads.setdefault((name, tensor), pointer)
        if row.dims is None or row.from_ is not None:
            raise InputError(
                f"an output of '{name}' does not state its dims", place=at(pointer), code="input.graph.dim", remedy=DOCS
            )
        outputs.append(Operand(tensor, tuple(row.dims), row.dtype))
    if not results and inputs:
        first = inputs[0].dims if inputs[0].dims is not None else made.get(inputs[0].tensor)
        if first is None:
            raise InputError(
                f"'{name}' states no 'output', and its first input '{inputs[0].tensor}' is not made by what stands above it",
                place=at(here), code="input.graph.dangling", remedy="Name an input or operator that there is, or state 'output'.",
            )  # fmt: skip
        outputs.append(Operand(name, first))
    made.update({row.tensor: row.dims or () for row in outputs})
    return DescribedOperator(
        name, kind, tuple(inputs), tuple(outputs), parameters, tuple(one.over or ()), tuple(one.whole or ()),
        dict(one.follows or {}), dict(one.window or {}), bool(one.causal), bool(one.linear),
    )  # fmt: skip


def _size(name: str, value: int | str, place: Place) -> Size:
    """A size as it is written. Raises InputError."""
    found = None
    if isinstance(value, int):
        found = Size(value) if 1 <= value <= SIZE_LIMIT else None
    else:
        product, slash, below = value.partition("/")
        factors = [part.strip() for part in product.split(" x ")]
        divisor = int(below) if slash and re.fullmatch(r" ?[0-9]{1,13}", below) else 1 if not slash else 0
        words = tuple(part for part in factors if part in (MICROBATCH, SEQUENCE_LENGTH))
        numbers = [int(part) for part in factors if part.isascii() and part.isdigit() and len(part) <= 13]
        if len(words) + len(numbers) == len(factors) <= 8 and divisor >= 1:
            factor = 1
            for number in numbers:
                factor *= number
            found = Size(factor, words, divisor) if 1 <= factor <= SIZE_LIMIT else None
    if found is None:
        raise InputError(
            f"dims.{name}: {value!r:.60} is no size", place=place, code="input.graph.size_of_dim", remedy=f"Write {_SIZE}."
        )
    return found
