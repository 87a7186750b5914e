"""A traced program as a described graph: a name for every dim, one operator after the other. Knows no format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from .described import MICROBATCH, SEQUENCE_LENGTH, DescribedGraph, DescribedOperator, Operand, Size
from .factors import Dim, Factor, flat
from .traced import Made, Step, Value


class Writing:
    """Names for dims, one operator after the other."""

    def __init__(self, steps: list[Step], inputs: Mapping[str, Value]) -> None:
        self.steps, self.inputs = steps, inputs
        self.sizes: dict[str, Size] = {}
        self.of_factor: dict[Factor, str] = {}
        #: The dtype of most floats: that of the export. Training has its own, by the workload's precision.
        floats = Counter(made.dtype for step in steps for made, _ in step.ins if not made.index)
        self.usual = floats.most_common(1)[0][0] if floats else None

    def graph(self) -> DescribedGraph:
        """The whole."""
        read = {made for step in self.steps for made, _ in step.ins}
        entered: dict[str, Operand] = {}
        for name, value in self.inputs.items():
            if value.made in read:
                value.made.dims = flat(value.made.dims)
                self._made(value.made, {dim: dim for dim in value.made.dims})
                entered[name] = self._operand(value.made)
        uses: dict[Made, int] = {}
        for step in self.steps:
            for made, _ in step.ins:
                uses[made] = uses.get(made, 0) + made.parameter
        shared = {}
        for made, count in uses.items():
            if count > 1:
                made.dims = flat(made.dims)
                self._made(made, {dim: dim for dim in made.dims})
                shared[made.name] = self._operand(made)
        return DescribedGraph(self.sizes, entered, tuple(self._operator(step, shared) for step in self.steps), shared)

    def _operand(self, made: Made) -> Operand:
        return Operand(made.name, tuple(made.names[dim] for dim in made.dims), self._dtype(made))

    def _dtype(self, made: Made) -> str | None:
        return None if made.dtype == self.usual else made.dtype

    def _made(self, made: Made, loops: Mapping[Dim, object]) -> None:
        """Names for the dims of a tensor, none twice."""
        taken: set[str] = set()
        for dim in loops:
            made.names[dim] = self._free(dim, taken)
            taken.add(made.names[dim])

    def _free(self, dim: Dim, taken: set[str]) -> str:
        """A name for a dim that is not taken: of its factor, else of its size."""
        root = dim.factor.root()
        own = self.of_factor.get(root)
        if own is None:
            base = root.name or f"n{root.size}"
            size = {"batch": Size(1, (MICROBATCH,)), "sequence": Size(1, (SEQUENCE_LENGTH,))}.get(root.name, Size(root.size))
            own, k = base, 2
            while self.sizes.get(own, size) != size:
                own, k = f"{base}_{k}", k + 1
            self.of_factor[root], self.sizes[own] = own, size
        name, k = own, 2
        while name in taken:
            name, k = f"{own}_again{k - 1 if k > 2 else ''}", k + 1
            self.sizes.setdefault(name, self.sizes[own])
        return name

    def _operator(self, step: Step, shared: Mapping[str, Operand]) -> DescribedOperator:
        names: dict[str, str] = {}
        sizes: dict[str, int] = {}
        taken: set[str] = set()
        follows: dict[str, str] = {}
        own: dict[Dim, str] = {}
        undivided: set[str] = set()

        def called(made: Made, dim: Dim, loop: str = "") -> str:
            # What attention needs undivided is no loop: a head's width may be that of keys and of values.
            apart = loop in step.whole and step.kind == "attention"
            others = taken - undivided if apart else taken
            known = made.names.get(dim)
            name = known if known is not None and known not in others else self._free(dim, others)
            taken.add(name)
            if apart:
                undivided.add(name)
            return name

        for made, loops in (*step.ins, step.out):
            for dim, loop in loops.items():
                size = dim.factor.root().size
                if loop not in names:
                    names[loop], sizes[loop] = called(made, dim, loop), size
                elif size != sizes[loop]:
                    other = next((a for a, b in follows.items() if b == names[loop]), None)
                    own[dim] = other or called(made, dim)
                    follows[own[dim]] = names[loop]
        inputs: list[Operand] = []
        parameters: dict[str, Operand] = {}
        for made, loops in step.ins:
            dims = tuple(own.get(dim, names[loops[dim]]) for dim in made.dims)
            if made.parameter:
                role = "weight" if not parameters else "bias" if len(parameters) == 1 else f"bias_{len(parameters)}"
                own_name = made.name if made.name in shared else f"{step.out[0].name}:{role}"
                parameters[role] = Operand(own_name, dims, self._dtype(made))
                continue
            same = tuple(made.names[dim] for dim in made.dims) == dims
            inputs.append(Operand(made.name, None if same else dims))
        out, loops = step.out
        out.dims = flat(out.dims)
        out.names = {dim: own.get(dim, names[loops[dim]]) for dim in out.dims}
        return DescribedOperator(
            out.name, step.kind, tuple(inputs), (self._operand(out),),
            parameters, tuple(sorted(names[loop] for loop in step.over if loop in names)),
            tuple(sorted(names[loop] for loop in step.whole if loop in names)), follows,
            {names[loop]: size for loop, size in step.window.items() if loop in names}, step.causal, step.linear,
        )  # fmt: skip
