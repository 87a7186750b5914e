"""From a program that was exported, operation by operation, to a described graph: what readers of other formats build on.

A reader declares what enters, then says of each operation what it reads and makes: a map, a product, a reduction, by axes.
Transpositions, reshapes and casts make other views of the same tensor and no operator; maps that only feed a map are one.
Names of dims are given for people: those of the batch and of the sequence are known, heads, widths and vocabulary by what is
done to them, others by their size. Nothing here knows a format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from ..errors import InputError
from .described import DescribedGraph
from .factors import Dim, dims_of, flat, unified
from .graph import OPERATOR_LIMIT, RANK_LIMIT
from .trace_fusing import attention_fused, maps_fused
from .trace_writing import Writing
from .traced import Labels, Made, Step, Value


class Trace:
    """The operations of one program, in an order in which each comes after what it reads."""

    def __init__(self) -> None:
        self.inputs: dict[str, Value] = {}
        self._pending: list[tuple[Step, list[tuple[Value, Labels]], Value, Labels]] = []
        self._taken: set[str] = set()
        self._named: list[tuple[list[Dim], str]] = []
        self._late: list[tuple[list[Dim], str]] = []

    # What readers call.

    def enter(self, name: str, sizes: Sequence[int], dtype: str, *, parameter: bool = False) -> Value:
        """An input or a parameter."""
        value = self._new(self._unique(name), sizes, dtype, parameter=parameter)
        if not parameter:
            self.inputs[value.made.name] = value
        return value

    def call(self, axis: list[Dim], name: str, *, late: bool = False) -> None:
        """Give the dims of an axis a name; the first name stands, late ones where there is no other."""
        (self._late if late else self._named).append((axis, name))

    def view(self, x: Value, sizes: Sequence[int], axes: list[list[Dim]]) -> Value:
        """Other axes of the same tensor."""
        return Value(x.made, tuple(sizes), axes)

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        """The axes in another order."""
        return self.view(x, [x.sizes[k] for k in order], [x.axes[k] for k in order])

    def widened(self, name: str, x: Value, sizes: Sequence[int]) -> Value:
        """A parameter broadcast, or changed in place: no copy of it is trained, so axes that it has not have no dims."""
        lead = len(sizes) - len(x.sizes)
        own = (1,) * lead + x.sizes
        self._expect(name, lead >= 0 and all(a in (1, b) for a, b in zip(own, sizes, strict=True)), "a weight that is cut")
        axes = [list[Dim]() for _ in range(lead)] + x.axes
        return self.view(x, sizes, axes)

    def reshaped(self, name: str, x: Value, sizes: Sequence[int]) -> Value:
        """Other axes of the same elements: a view where the sizes factor, else an operator that needs what changes whole."""
        self._expect(name, prod(sizes) == prod(x.sizes), f"{list(x.sizes)} cannot be reshaped to {list(sizes)}")
        if tuple(sizes) == x.sizes:
            return x
        groups = _groups(x.sizes, sizes)
        axes: list[list[Dim]] = []
        for olds, news in groups:
            dims = [dim for k in olds for dim in x.axes[k]]
            wanted = dims_of([sizes[k] for k in news])
            if not unified(dims, [dim for axis in wanted for dim in axis]):
                labels: list[str | None] = [None] * len(x.sizes)
                out: list[str | None] = [None] * len(sizes)
                for a, b in groups:
                    if len(a) == len(b) == 1:
                        labels[a[0]] = out[b[0]] = f"r{a[0]}"
                return self.add(name, "reshape", [(x, labels)], sizes, out, x.made.dtype)
            left = flat(dims)
            for axis in wanted:
                count = len(flat(axis))
                axes.append(left[:count])
                left = left[count:]
        return self.view(x, sizes, axes)

    def add(
        self, name: str, kind: str, ins: Sequence[tuple[Value, Labels]], sizes: Sequence[int], out: Labels, dtype: str,
        *, over: Iterable[str] = (), whole: Iterable[str] = (), window: Mapping[str, int] | None = None, causal: bool = False,
        linear: bool = False,
    ) -> Value:  # fmt: skip
        """An operator and what it makes. Axes of one label and other sizes follow each other (strides, key heads).

        Raises InputError beyond the limits of a graph.
        """
        if len(self._pending) >= OPERATOR_LIMIT:
            raise InputError(
                f"the program has more than {OPERATOR_LIMIT:,} operators", code="input.graph.size",
                remedy="Export some layers of each kind, or one stage.",
            )  # fmt: skip
        value = self._new(self._unique(name), sizes, dtype)
        for one, labels in (*ins, (value, out)):
            self._expect(name, len(labels) == len(one.sizes), f"{len(one.sizes)} axes where {len(labels)} were expected")
        by_label: dict[str, list[Dim]] = {}
        for one, labels in (*ins, (value, out)):
            for label, axis in zip(labels, one.axes, strict=True):
                if label is not None and axis:
                    known = by_label.setdefault(label, axis)
                    if known is not axis:
                        a, b = (prod(dim.factor.root().size for dim in flat(one)) for one in (known, axis))
                        follows = kind in ("convolution", "reduction") or (kind, label) == ("attention", "h")
                        self._expect(name, a == b or follows, f"{a:,} and {b:,} elements along what is one axis")
                        if a == b:
                            unified(known, axis)
        step = Step(name, kind, [], (value.made, {}), set(over), set(whole), dict(window or {}), causal=causal, linear=linear)
        self._pending.append((step, list(ins), value, out))
        return value

    def map(self, name: str, xs: Sequence[Value], sizes: Sequence[int], dtype: str, *, linear: bool = False) -> Value:
        """An elementwise operator over operands that are aligned at their last axes, as numpy broadcasts."""
        rank = len(sizes)
        ins = []
        for x in xs:
            labels = [f"e{rank - len(x.sizes) + k}" for k in range(len(x.sizes))]
            self._expect(name, len(x.sizes) <= rank, f"an operand of {len(x.sizes)} axes, a result of {rank}")
            ins.append((x, labels))
        out = [f"e{k}" for k in range(rank)]
        return self.add(name, "add" if linear else "elementwise", ins, sizes, out, dtype, linear=linear)

    # The graph.

    def described(
        self, results: Sequence[Value], batch: Sequence[list[Dim]], sequence: Sequence[list[Dim]]
    ) -> DescribedGraph:
        """The graph of what the results need. `batch` and `sequence`: axes that run over them."""
        for axes, name in ((batch, "batch"), (sequence, "sequence")):
            for axis in axes:
                dims = flat(axis)
                if len(dims) != 1:
                    parts = " x ".join(str(dim.factor.root().size) for dim in dims)
                    raise InputError(
                        f"the dim of the {name} is reshaped into parts ({parts})", code="input.graph.batch",
                        remedy="Export with another batch and sequence length: primes are not taken apart.",
                    )  # fmt: skip
                dims[0].factor.root().name = name
        ends = [(one.axes[-1], "vocabulary") for one in results if len(one.sizes) > 2]
        for axis, name in (*self._named, *ends, *self._late):
            dims = flat(axis)
            # Heads of which some share their keys: the outer factor is what divides both.
            if dims and (len(dims) == 1 or name == "heads") and not dims[0].factor.root().name:
                dims[0].factor.root().name = name
        steps = _needed([self._stepped(*one) for one in self._pending], {one.made for one in results})
        kept = {one.made for one in results}
        return Writing(attention_fused(maps_fused(steps, kept), kept), self.inputs).graph()

    def _stepped(self, step: Step, ins: list[tuple[Value, Labels]], value: Value, out: Labels) -> Step:
        """The step with a loop for each dim, now that all splits are known."""
        agreed: dict[str, int] = {}
        for one, labels in (*ins, (value, out)):
            for label, axis in zip(labels, one.axes, strict=True):
                if label is not None and axis:
                    count = len(flat(axis))
                    agreed[label] = count if agreed.get(label, count) == count else -1

        def loops(one: Value, labels: Labels, at: str) -> dict[Dim, str]:
            found: dict[Dim, str] = {}
            for k, (label, axis) in enumerate(zip(labels, one.axes, strict=True)):
                for n, dim in enumerate(flat(axis)):
                    if label is None or agreed[label] < 0:
                        found[dim] = f"?{at}.{k}.{n}"
                        step.whole.add(found[dim])
                    else:
                        found[dim] = f"{label}.{n}"
            return found

        made: list[tuple[Made, dict[Dim, str]]] = []
        for k, (one, labels) in enumerate(ins):
            made.append((one.made, _covering(one.made, loops(one, labels, str(k)), step, str(k))))
        step.ins = made
        value.made.dims = flat(value.made.dims)
        step.out = (value.made, loops(value, out, "o"))
        for kept in (step.over, step.whole):
            for label in [one for one in kept if "." not in one]:
                kept.discard(label)
                kept.update(f"{label}.{n}" for n in range(max(0, agreed.get(label, 0))))
        step.window = {f"{label}.0": size for label, size in step.window.items() if agreed.get(label) == 1}
        return step

    def _new(self, name: str, sizes: Sequence[int], dtype: str, *, parameter: bool = False) -> Value:
        axes = dims_of(sizes)
        self._expect(name, len(sizes) <= RANK_LIMIT, f"{len(sizes)} axes; at most {RANK_LIMIT} are read")
        self._expect(name, all(size >= 1 for size in sizes), f"the sizes {list(sizes)}")
        index = dtype.startswith(("int", "bool"))
        return Value(Made(name, [dim for axis in axes for dim in axis], dtype, parameter, index), tuple(sizes), axes)

    def _unique(self, name: str) -> str:
        plain = "".join(c if c.isalnum() or c in "._-" else "." for c in name).strip(".")[:100] or "operator"
        found, k = plain, 2
        while found in self._taken:
            found, k = f"{plain}.{k}", k + 1
        self._taken.add(found)
        return found

    def _expect(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"'{name[:80]}': {what}", code="input.graph.shape", remedy="Export the program again.")


def _covering(made: Made, loops: dict[Dim, str], step: Step, at: str) -> dict[Dim, str]:
    """Loops for all dims of a tensor: those that a view leaves out are whole."""
    made.dims = flat(made.dims)
    found = {}
    for n, dim in enumerate(made.dims):
        found[dim] = loops.get(dim) or f"?{at}.-.{n}"
        if dim not in loops:
            step.whole.add(found[dim])
    return found


def _groups(olds: Sequence[int], news: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes before and after that hold the same elements, as few together as can be."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(olds) or j < len(news):
        a, b = ([i] if i < len(olds) else []), ([j] if j < len(news) else [])
        i, j = i + len(a), j + len(b)
        while (x := prod(olds[k] for k in a)) != (y := prod(news[k] for k in b)):
            if x < y and i < len(olds):
                a.append(i)
                i += 1
            elif j < len(news):
                b.append(j)
                j += 1
            else:
                a += range(i, len(olds))
                i = len(olds)
                break
        found.append((a, b))
    return found


def _needed(steps: list[Step], wanted: set[Made]) -> list[Step]:
    """The steps that the results follow from, in order."""
    found = []
    for step in reversed(steps):
        if step.out[0] in wanted:
            wanted.update(made for made, _ in step.ins)
            found.append(step)
    return found[::-1]
