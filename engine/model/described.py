"""Operator graphs as people and exporters describe them: operators over dims called by name, to the graph that builders make.

Vocabulary: an *operand* is a tensor with a name for each of its dims. What a dim means to an operator follows from where it
stands: one that an input or a weight has and no output has is summed, one named in `over` needs statistics of all its parts, one
in `whole` is never divided. Two names of one loop (`follows`) are a stride, a capacity, or key heads that follow query heads.
Nothing here knows files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from .building import keeping
from .graph import OPERATOR_LIMIT, GraphError, OperatorGraph, graph_of
from .operator import CONTRACTIONS, ELEMENT_BYTES, WHOLE, Kind, Loop, Operator, Role, Split, Tensor, Use

#: Kinds that are described by name; an addition is an elementwise operator through which partial sums pass.
ADD = "add"
KINDS = (*(kind.value for kind in Kind if kind not in (Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER)), ADD)
#: Kinds that take statistics over some dims, and must say which.
_NEED_OVER = frozenset({Kind.ATTENTION, Kind.NORM, Kind.SOFTMAX, Kind.CROSS_ENTROPY})
#: Kinds whose every output element follows from the same element of its inputs.
_MAPS = frozenset({Kind.ELEMENTWISE, Kind.NORM, Kind.SOFTMAX})
_ROLES = ("query", "key", "value", "key_shared")
#: Kinds whose dims may differ in size from the loop that runs over them.
_SCALED = frozenset({Kind.CONVOLUTION, Kind.DISPATCH, Kind.COMBINE, Kind.RESHAPE, Kind.REDUCTION})
#: Sizes that the workload and the plan decide.
MICROBATCH, SEQUENCE_LENGTH = "microbatch", "sequence_length"


@dataclass(frozen=True, slots=True)
class Size:
    """A size: `factor` x the words in `words` / `divisor`, rounded up."""

    factor: int = 1
    words: tuple[str, ...] = ()
    divisor: int = 1

    def of(self, values: Mapping[str, int]) -> int:
        """The number."""
        found = self.factor
        for word in self.words:
            found *= values[word]
        return -(-found // self.divisor)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor by name with its dims; of an input None where they are those it was made with."""

    tensor: str
    dims: tuple[str, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class DescribedOperator:
    """One operator. `parameters` by role; `window`: by dim, the rows that an element needs along it (a name or a number)."""

    name: str
    kind: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: Mapping[str, Operand] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    follows: Mapping[str, str] = field(default_factory=dict)
    window: Mapping[str, str | int] = field(default_factory=dict)
    causal: bool = False
    linear: bool = False


@dataclass(frozen=True, slots=True)
class DescribedGraph:
    """Dims with their sizes, what enters, parameters that several operators share, and the operators, in any order."""

    dims: Mapping[str, Size]
    inputs: Mapping[str, Operand]
    operators: tuple[DescribedOperator, ...]
    parameters: Mapping[str, Operand] = field(default_factory=dict)
    dtype: str | None = None


def built(described: DescribedGraph, batch: int, sequence: int, dtype: str = "bf16") -> OperatorGraph:
    """The operator graph of `batch` sequences of `sequence` tokens. `dtype`: of tensors that state none.

    Raises GraphError, which names the operator and the tensor at fault.
    """
    if len(described.operators) > OPERATOR_LIMIT:
        raise GraphError(
            f"the graph has {len(described.operators):,} operators; at most {OPERATOR_LIMIT:,} are read",
            remedy="Give one block of each kind with its layers, or the graph of one stage.",
            code="input.graph.size",
        )
    if not described.operators:
        raise GraphError("the graph has no operator", remedy="List its operators, or leave the graph out.")
    if not any(MICROBATCH in size.words for size in described.dims.values()):
        raise GraphError(
            f"no dim of the graph is '{MICROBATCH}': nothing says which one runs over the sequences of a step",
            remedy="Name it in 'dims', as in {batch: microbatch, sequence: sequence_length, hidden: 4096}.",
            code="input.graph.batch",
        )
    return _Reading(described, {MICROBATCH: batch, SEQUENCE_LENGTH: sequence}, described.dtype or dtype).graph()


class _Reading:
    """One description on its way to a graph."""

    def __init__(self, described: DescribedGraph, values: Mapping[str, int], dtype: str) -> None:
        self.described, self.dtype = described, dtype
        self.sizes = {name: size.of(values) for name, size in described.dims.items()}
        #: The dims of every tensor, by name.
        self.made: dict[str, tuple[str, ...]] = {}
        self.tensors: list[Tensor] = []
        self.read: set[str] = set()

    def graph(self) -> OperatorGraph:
        described = self.described
        for operand in described.inputs.values():
            dtype = operand.dtype or self.dtype
            self._tensor(operand, "", Role.INDEX if dtype.startswith(("int", "bool")) else Role.ACTIVATION)
        for operand in described.parameters.values():
            self._tensor(operand, "", Role.PARAMETER)
        for one in described.operators:
            for operand in one.outputs:
                self._tensor(operand, one.name, Role.ACTIVATION)
        rows = [self._operator(one) for one in described.operators]
        operators = self._sources(rows)
        left = [one for row in described.operators for one in row.outputs if one.tensor not in self.read]
        operators += [
            Operator(f"{one.tensor}.sink", Kind.OUTPUT, self._loops(one.dims or ()), inputs=(_plain(one),)) for one in left
        ]
        graph = graph_of(self.tensors, operators)
        self._all_read(rows)
        return OperatorGraph(graph.tensors, keeping(graph.operators, graph.tensors))

    def _all_read(self, operators: Sequence[Operator]) -> None:
        """A parameter or input that nothing reads would be counted, or is a slip in a name."""
        read = {use.tensor for one in operators for use in (*one.inputs, *one.parameters)}
        for what, operands in (("parameter", self.described.parameters), ("input", self.described.inputs)):
            for operand in operands.values():
                if operand.tensor not in read:
                    raise GraphError(
                        f"no operator reads the {what} '{operand.tensor}'", remedy="Name it where it is read, or leave it out.",
                        tensor=operand.tensor, code="input.graph.dangling",
                    )  # fmt: skip

    def _sources(self, operators: list[Operator]) -> list[Operator]:
        """The operators after the sources of what enters.

        What has no gradient enters once for each operator that reads it: every device may be handed the part that it needs,
        and a mask that all layers read ties none of them to another.
        """
        found: list[Operator] = []
        indices = {one.name: one for one in self.tensors if one.role is Role.INDEX}
        for operand in self.described.inputs.values():
            if operand.tensor not in indices:
                found.append(self._source(operand))
        for operator in operators:
            renamed = []
            for use in operator.inputs:
                index = indices.get(use.tensor)
                if index is None:
                    renamed.append(use)
                    continue
                own = f"{use.tensor} of {operator.name}"
                renamed.append(replace(use, tensor=own))
                if own not in self.made:
                    self.made[own] = self.made[use.tensor]
                    self.tensors.append(replace(index, name=own))
                    found.append(self._source(Operand(own, self.made[own])))
            found.append(replace(operator, inputs=tuple(renamed)))
        self.tensors = [one for one in self.tensors if one.name not in indices]
        return found

    def _source(self, operand: Operand) -> Operator:
        return Operator(f"{operand.tensor}.source", Kind.INPUT, self._loops(operand.dims or ()), outputs=(_plain(operand),))

    def _loops(self, dims: Sequence[str]) -> tuple[Loop, ...]:
        return tuple(Loop(dim, self.sizes[dim]) for dim in dict.fromkeys(dims))

    def _tensor(self, operand: Operand, operator: str, role: Role) -> None:
        """A new tensor with the dims that it is declared with."""
        if operand.tensor in self.made:
            raise GraphError(
                f"two tensors are called '{operand.tensor}'" + (f"; one is made by '{operator}'" if operator else ""),
                remedy="Give each a name of its own: an operator's output has the operator's.",
                operator=operator, tensor=operand.tensor, code="input.graph.twice",
            )  # fmt: skip
        dims = operand.dims or ()
        for dim in dims:
            if dim not in self.sizes:
                raise GraphError(
                    f"'{operand.tensor}' has the dim '{dim}', which is not in 'dims'",
                    remedy=_near(dim, self.sizes, "Add it with its size."),
                    operator=operator, tensor=operand.tensor, code="input.graph.dim",
                )  # fmt: skip
        if len(set(dims)) < len(dims):
            raise GraphError(
                f"'{operand.tensor}' has a dim twice: {', '.join(dims)}",
                remedy="Give the second a name of its own, with the same size.",
                operator=operator, tensor=operand.tensor, code="input.graph.dim",
            )  # fmt: skip
        dtype = operand.dtype or self.dtype
        if dtype not in ELEMENT_BYTES:
            raise GraphError(
                f"'{operand.tensor}' has the dtype '{dtype}'", remedy=f"Known dtypes: {', '.join(ELEMENT_BYTES)}.",
                operator=operator, tensor=operand.tensor,
            )  # fmt: skip
        self.made[operand.tensor] = dims
        self.tensors.append(Tensor(operand.tensor, tuple(self.sizes[dim] for dim in dims), dtype, role))

    def _dims(self, one: DescribedOperator, operand: Operand) -> tuple[str, ...]:
        """The dims of an input as the operator calls them. They fit the tensor that was made."""
        made = self.made.get(operand.tensor)
        if made is None:
            raise GraphError(
                f"'{one.name}' reads '{operand.tensor}', which no operator makes and which is no input or parameter",
                remedy=_near(operand.tensor, self.made, "Declare it under 'inputs', or name the output of an operator."),
                operator=one.name, tensor=operand.tensor, code="input.graph.dangling",
            )  # fmt: skip
        self.read.add(operand.tensor)
        dims = made if operand.dims is None else operand.dims
        if len(dims) != len(made):
            raise GraphError(
                f"'{one.name}' reads '{operand.tensor}' with {len(dims)} dims ({', '.join(dims)}), and it has {len(made)} "
                f"({', '.join(made)})",
                remedy="Name one dim for each of the tensor's.",
                operator=one.name, tensor=operand.tensor, code="input.graph.shape",
            )  # fmt: skip
        for dim, other in zip(dims, made, strict=True):
            self._known(one, dim)
            if self.sizes[dim] != self.sizes[other]:
                raise GraphError(
                    f"'{one.name}' reads '{operand.tensor}' with '{dim}' of {self.sizes[dim]:,}, and there it is '{other}' of "
                    f"{self.sizes[other]:,}",
                    remedy="The sizes of a dim agree in all operands.",
                    operator=one.name, tensor=operand.tensor, code="input.graph.shape",
                )  # fmt: skip
        return dims

    def _known(self, one: DescribedOperator, dim: str) -> None:
        if dim not in self.sizes:
            raise GraphError(
                f"'{one.name}' names the dim '{dim}', which is not in 'dims'",
                remedy=_near(dim, self.sizes, "Add it with its size."), operator=one.name, code="input.graph.dim",
            )  # fmt: skip

    def _operator(self, one: DescribedOperator) -> Operator:
        kind = Kind.ELEMENTWISE if one.kind == ADD else Kind(one.kind)
        self._demand(one, kind)
        inputs = [(operand.tensor, self._dims(one, operand)) for operand in one.inputs]
        parameters = [(role, *self._parameter(one, role, operand)) for role, operand in one.parameters.items()]
        outputs = [(operand.tensor, operand.dims or ()) for operand in one.outputs]
        self._said_of_own({dim for *_, dims in (*inputs, *parameters, *outputs) for dim in dims}, one)
        keys = self._keys(one, kind, inputs)
        names = {dim: one.follows.get(dim, dim) for dim in self.sizes}

        def loops(dims: Sequence[str], renamed: Mapping[str, str] | None = None) -> list[str]:
            return [WHOLE if dim in one.whole else (renamed or {}).get(dim, names[dim]) for dim in dims]

        rows = [loops(dims, keys if k else None) for k, (_, dims) in enumerate(inputs)]
        held = [loops(dims) for _, _, dims in parameters]
        made = [loops(dims) for _, dims in outputs]
        out = {loop for row in made for loop in row} - {WHOLE}
        over = {keys.get(dim, names[dim]) for dim in one.over}
        summed = _summed(kind, rows, held, out, linear=one.linear)
        kernel = {loop for row in held for loop in row} - {loop for row in rows for loop in row} - out
        if kind in CONTRACTIONS and not summed and not (kind is Kind.CONVOLUTION and kernel):
            raise GraphError(
                f"'{one.name}' ({one.kind}) sums over nothing: every dim of its operands is in its output",
                remedy="Leave the dims that are summed out of 'output', or write 'kind: elementwise'.",
                operator=one.name, code="input.graph.shape",
            )  # fmt: skip
        if kind in _MAPS:
            self._only_maps(one, inputs, rows, out, over)
        kept = out | over | summed | (set(rows[0]) if kind in (Kind.COMBINE, Kind.DISPATCH, Kind.REDUCTION) else set())
        if kind in CONTRACTIONS:
            kept |= {loop for row in (*rows, *held) for loop in row}
        if kind is Kind.RESHAPE:
            kept = out & {loop for row in rows for loop in row}
        kept -= {WHOLE}
        uses = [
            self._use(one, kind, tensor, dims, row, kept, _input_role(kind, k))
            for k, ((tensor, dims), row) in enumerate(zip(inputs, rows, strict=True))
        ]
        weights = [
            self._use(one, kind, tensor, dims, row, kept, _parameter_role(kind, role, set(row) & summed))
            for (role, tensor, dims), row in zip(parameters, held, strict=True)
        ]
        results = [
            self._use(one, kind, tensor, dims, row, kept, "x")
            for (tensor, dims), row in zip(outputs, made, strict=True)
        ]
        order = dict.fromkeys(
            loop for use in (*uses, *weights, *results) for loop in use.loops if loop != WHOLE
        )
        splits = self._splits(kind, rows, held, out, over, summed)
        sizes = self._loop_sizes(one, kind, keys, outputs, made)
        halos = {names[dim]: self._halo(one, dim, across) for dim, across in one.window.items()}
        return Operator(
            one.name, kind,
            tuple(Loop(loop, sizes[loop], splits.get(loop, Split.FREE), halos.get(loop, 0)) for loop in order),
            tuple(uses), tuple(results), tuple(weights), causal=one.causal, linear=one.linear or one.kind == ADD,
        )  # fmt: skip

    def _said_of_own(self, own: set[str], one: DescribedOperator) -> None:
        """What is said of dims is said of the operator's own, and no name follows itself, at one remove or more."""
        for key, dims in (("over", one.over), ("whole", one.whole), ("follows", one.follows), ("window", one.window)):
            for dim in dims:
                if dim not in own:
                    raise GraphError(
                        f"'{one.name}' names '{dim}' in '{key}', and nothing that it reads or makes has that dim",
                        remedy=_near(dim, dict.fromkeys(own), f"Its dims: {', '.join(sorted(own))}."),
                        operator=one.name, code="input.graph.dim",
                    )  # fmt: skip
        for dim, other in one.follows.items():
            if dim == other or other in one.follows:
                which = "is itself" if dim == other else "follows another"
                raise GraphError(
                    f"'{one.name}' says that '{dim}' follows '{other}', which {which}",
                    remedy="Name the loop that all of them follow, and nothing for that one, as in follows: {kv_heads: heads}.",
                    operator=one.name, code="input.graph.dim",
                )  # fmt: skip

    def _demand(self, one: DescribedOperator, kind: Kind) -> None:
        """What the kind needs, and dims that there are."""
        for dim in (*one.over, *one.whole, *one.follows, *one.follows.values(), *one.window):
            self._known(one, dim)
        wanted = ""
        if not one.inputs:
            wanted = "reads nothing; name its 'inputs'"
        elif not one.outputs:
            wanted = "makes nothing; state the dims of its 'output'"
        elif kind in _NEED_OVER and not one.over:
            wanted = f"is of the kind {one.kind} and does not say over which dims; add 'over', as in over: [hidden]"
        elif kind is Kind.ATTENTION and len(one.inputs) not in (3, 4):
            wanted = f"has {len(one.inputs)} inputs; attention reads query, key and value (and a key that all heads share)"
        elif kind is Kind.ATTENTION and not one.whole:
            wanted = "does not say which dim is the width of a head; add 'whole', as in whole: [head]"
        elif kind is Kind.EMBEDDING and len(one.parameters) != 1:
            wanted = "looks rows up in one table; state it in 'parameters', as in parameters: {table: [vocabulary, hidden]}"
        elif kind is Kind.CROSS_ENTROPY and len(one.inputs) != 2:
            wanted = "compares logits with labels; name both in 'inputs'"
        if wanted:
            raise GraphError(
                f"'{one.name}' {wanted}", remedy="See 'model.graph' in docs/proposal.md.", operator=one.name,
                code="input.graph.operator",
            )  # fmt: skip

    def _parameter(self, one: DescribedOperator, role: str, operand: Operand) -> tuple[str, tuple[str, ...]]:
        """A parameter of its own, or one that several operators share."""
        if operand.dims is not None and operand.tensor not in self.described.parameters:
            self._tensor(operand, one.name, Role.PARAMETER)
            return operand.tensor, operand.dims
        if operand.tensor not in self.described.parameters:
            raise GraphError(
                f"the parameter '{role}' of '{one.name}' is '{operand.tensor}', which is not among the graph's 'parameters'",
                remedy=_near(operand.tensor, self.described.parameters, f"State its dims, as in {{{role}: [hidden, inner]}}."),
                operator=one.name, tensor=operand.tensor, code="input.graph.dangling",
            )  # fmt: skip
        return operand.tensor, self._dims(one, operand)

    def _keys(
        self, one: DescribedOperator, kind: Kind, inputs: Sequence[tuple[str, tuple[str, ...]]]
    ) -> dict[str, str]:
        """The loop along keys and values, where its dim is the one that queries have, too."""
        if kind is not Kind.ATTENTION:
            return {}
        shared = [dim for dim in one.over if dim in inputs[0][1]]
        return {dim: "keys" if "keys" not in self.sizes else f"keys of {dim}" for dim in shared}

    def _use(
        self, one: DescribedOperator, kind: Kind, tensor: str, dims: Sequence[str], row: Sequence[str], kept: set[str],
        role: str,
    ) -> Use:  # fmt: skip
        """An operand. A dim whose loop is divided into more parts than it has elements repeats (key heads)."""
        few = kind not in _SCALED and any(
            loop != WHOLE and dim in one.follows and self.sizes[dim] != self.sizes[one.follows[dim]]
            for dim, loop in zip(dims, row, strict=True)
        )
        return Use(tensor, tuple(loop if loop in kept else WHOLE for loop in row), role, few)

    def _only_maps(
        self, one: DescribedOperator, inputs: Sequence[tuple[str, tuple[str, ...]]], rows: Sequence[Sequence[str]],
        out: set[str], over: set[str],
    ) -> None:  # fmt: skip
        for (tensor, dims), row in zip(inputs, rows, strict=True):
            for dim, loop in zip(dims, row, strict=True):
                if loop not in out | over | {WHOLE} and self.sizes[dim] > 1:
                    raise GraphError(
                        f"'{one.name}' ({one.kind}) reads '{tensor}' with the dim '{dim}', which its output does not have",
                        remedy="An elementwise operator keeps all dims: write 'kind: reduction', or add the dim to 'output'.",
                        operator=one.name, tensor=tensor, code="input.graph.shape",
                    )  # fmt: skip

    def _splits(
        self, kind: Kind, rows: Sequence[Sequence[str]], held: Sequence[Sequence[str]], out: set[str], over: set[str],
        summed: set[str],
    ) -> dict[str, Split]:  # fmt: skip
        """What dividing each loop means."""
        alone = {loop for row in held for loop in row} - {loop for row in rows for loop in row} - out
        splits = dict.fromkeys(summed, Split.SUM)
        if kind is Kind.ROUTING:
            splits = dict.fromkeys(summed, Split.STATISTICS) | dict.fromkeys(alone, Split.WHOLE)
        elif kind is Kind.CONVOLUTION:
            splits |= dict.fromkeys(alone, Split.WHOLE)
        elif kind is Kind.REDUCTION:
            splits |= dict.fromkeys(set(rows[0]) - out - summed, Split.WHOLE)
        return splits | dict.fromkeys(over, Split.STATISTICS)

    def _loop_sizes(
        self, one: DescribedOperator, kind: Kind, keys: Mapping[str, str], outputs: Sequence[tuple[str, tuple[str, ...]]],
        made: Sequence[Sequence[str]],
    ) -> dict[str, int]:  # fmt: skip
        sizes = dict(self.sizes) | {loop: self.sizes[dim] for dim, loop in keys.items()}
        if kind in (Kind.CONVOLUTION, Kind.REDUCTION):
            # Work is done for each element of the result, whatever the stride.
            for (_, dims), row in zip(outputs, made, strict=True):
                sizes |= {loop: self.sizes[dim] for dim, loop in zip(dims, row, strict=True) if loop != WHOLE}
        return sizes

    def _halo(self, one: DescribedOperator, dim: str, across: str | int) -> int:
        if isinstance(across, str):
            self._known(one, across)
            across = self.sizes[across]
        if across < 1:
            raise GraphError(
                f"'{one.name}' has a window of {across} along '{dim}'", remedy="A window is 1 element or more.", operator=one.name
            )
        return across // 2


def _plain(operand: Operand) -> Use:
    return Use(operand.tensor, operand.dims or ())


def _summed(
    kind: Kind, rows: Sequence[Sequence[str]], held: Sequence[Sequence[str]], out: set[str], *, linear: bool
) -> set[str]:
    """Loops that leave partial sums where they are divided."""
    read = {loop for row in rows for loop in row} - {WHOLE}
    stored = {loop for row in held for loop in row} - {WHOLE}
    if kind in CONTRACTIONS:
        others = {loop for row in rows[1:] for loop in row} | stored
        return (set(rows[0]) & others) - out - {WHOLE}
    if kind is Kind.EMBEDDING:
        return stored - out
    if kind is Kind.COMBINE or (kind is Kind.REDUCTION and linear):
        return set(rows[0]) - out - {WHOLE} if kind is Kind.COMBINE else read - out
    return set()


def _input_role(kind: Kind, k: int) -> str:
    if kind is Kind.ATTENTION:
        return _ROLES[k]
    if kind is Kind.EMBEDDING or (kind is Kind.CROSS_ENTROPY and k == 1):
        return "index"
    if kind in CONTRACTIONS and k:
        return "weight"
    return "gates" if kind in (Kind.DISPATCH, Kind.COMBINE) and k else "x"


def _parameter_role(kind: Kind, role: str, summed: set[str]) -> str:
    if kind is Kind.EMBEDDING:
        return "table"
    return "weight" if kind in CONTRACTIONS and (summed or role == "weight") else "bias"


def _near(name: str, known: Iterator[str] | Mapping[str, object], otherwise: str) -> str:
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"Did you mean '{found[0]}'? {otherwise}" if found else otherwise
