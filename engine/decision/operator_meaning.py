"""What a plan means for each operator of a graph: the layouts that a stage states, and the usual ones of the framework's family.

Usual (Shoeybi et al. 2019, arXiv 1909.08053; Korthikanti et al. 2022, arXiv 2205.05198): batch on data, tokens on context, heads,
inner widths and vocabulary on tensor, experts on expert. Dims are known by the table of names, or by what they run over.
Nothing here prices anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..cost.device_mesh import DeviceMesh
from ..model.graph import OperatorGraph
from ..model.naming import dim_named, operator_named, plain_dim
from ..model.operator import WHOLE, Kind, Operator
from ..plan import Plan, Stage
from ..search.operator_space import SUMS
from ..search.stated_layouts import endings, stated_layout

#: Dims that tensor parallelism divides, the first that an operator has.
_TENSOR = ("heads", "inner", "vocabulary")
#: The graph's own names of dims that a described graph calls otherwise.
Called = Mapping[str, str]


def allowed(plan: Plan, stage: Stage, mesh: DeviceMesh, called: Called) -> Callable[[Operator, tuple[str, ...]], bool]:
    """The one split of each operator that the plan means: as its stage states it, or as its family has it.

    What does not divide its loop is replicated where it is only usual; what is stated stands, or there is no layout.
    """
    devices = {axis.name: axis.size for axis in mesh.axes}

    def meant(operator: Operator) -> tuple[str, ...]:
        named = stated_layout(operator, stage)
        found = []
        for axis in mesh.axes:
            loop = usual(operator, axis.name, plan, devices, called)
            if named is not None:
                at = next((dim for dim, on in named.items() if on == axis.name), None)
                loop = at if at is not None else WHOLE if axis.name == "tensor" else loop
            found.append(loop)
        return tuple(found)

    known: dict[str, tuple[str, ...]] = {}

    def matches(operator: Operator, split: tuple[str, ...]) -> bool:
        if operator.name not in known:
            known[operator.name] = meant(operator)
        wanted = known[operator.name]
        if operator.kind in (Kind.INPUT, Kind.OUTPUT):
            return SUMS not in split
        return split == wanted

    return matches


def pinned(plan: Plan, mesh: DeviceMesh, axes: Sequence[int], called: Called) -> Callable[[Operator], tuple[str | None, ...]]:
    """For each operator its usual loop on `axes`; None on the others."""
    devices = {axis.name: axis.size for axis in mesh.axes}

    def of(operator: Operator) -> tuple[str | None, ...]:
        return tuple(
            usual(operator, axis.name, plan, devices, called) if a in axes else None for a, axis in enumerate(mesh.axes)
        )

    return of


def unknown_operator(graph: OperatorGraph, stage: Stage) -> str:
    """What is wrong with the stated layouts: an operator or a dim that there is not. "" where nothing is."""
    for name, dims in stage.layouts:
        found = next((one for one in graph.operators if operator_named(name, endings(one)) is not None), None)
        if found is None:
            own = [one for one in graph.operators if one.kind not in (Kind.INPUT, Kind.OUTPUT)]
            names = dict.fromkeys(one.name.partition(".")[2] or one.name for one in own)
            return f"'layouts' names the operator '{name}', which the model does not have; it has {_few(names)}"
        for dim, _ in dims:
            if dim_named(dim, found.sizes) is None:
                return f"'layouts' names the dim '{dim}' of '{name}', which it does not have; it has {', '.join(found.sizes)}"
    return ""


def usual(operator: Operator, axis: str, plan: Plan, devices: Mapping[str, int], called: Called) -> str:
    """The loop that an axis divides in the family's layout; `WHOLE` for none."""
    own: dict[str, str] = {}
    for loop in operator.sizes:
        own.setdefault(called.get(loop) or plain_dim(loop), loop)

    def divides(name: str) -> bool:
        return name in own and operator.sizes[own[name]] % devices[axis] == 0

    if axis == "expert":
        mine = "experts" in own and operator.kind not in (Kind.DISPATCH, Kind.COMBINE)
        order: tuple[str, ...] = ("experts",) if mine else ("batch", "sequence")
    elif axis == "data":
        order = ("batch",)
    elif axis == "context":
        order = ("sequence",)
    elif axis == "tensor":
        split = operator.kind is not Kind.NORM or "heads" in own
        order = tuple(name for name in _TENSOR if split and name in own)
        if not order and plan.sequence_parallel and operator.kind is not Kind.ROUTING:
            order = ("sequence",)
    else:
        order = ()
    return next((own[name] for name in order if divides(name)), WHOLE)


def divides_nothing(graph: OperatorGraph, plan: Plan, stage: Stage, mesh: DeviceMesh, called: Called) -> str:
    """The axis of the mesh that by usual and stated layouts divides no product of the graph; "" where each divides one."""
    devices = {axis.name: axis.size for axis in mesh.axes}
    stated = {axis for _, dims in stage.layouts for _, axis in dims}
    for axis in mesh.axes:
        if axis.size == 1 or axis.name in stated:
            continue
        if all(usual(one, axis.name, plan, devices, called) == WHOLE for one in graph.operators if one.parameters):
            return axis.name
    return ""


def _few(names: Collection[str], most: int = 24) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(list(names)[:most]) + rest
