"""The memory ledger: every row of a rank's peak, stage by stage, with intervals, and whether it fits.

Vocabulary: *allocated* is live tensors at their peak, *reserved* what the allocator holds for them, *device-visible*
that and the framework's context; the three are never mixed. The rows of a stage add up to its totals, because they are
those of one moment, the largest. Bytes only: nothing here knows seconds, rules or search.
"""

from __future__ import annotations

import csv
from dataclasses import field
from fractions import Fraction
from importlib.resources import files
from math import hypot
from typing import Literal, NamedTuple

from ..cluster.cluster import Cluster
from ..frozen import dataclass
from ..hardware import DeviceSheet
from ..model import Attention, Transformer, Workload, moe_layers
from ..plan import Plan, Schedule, Stage
from ..quantity import Decider, Dimension, Estimate, Grade
from .activations import Loss
from .in_flight import InFlight
from .memory_rows import Row, fixed_rows, in_flight_row, reserve_row
from .memory_terms import BARE, Amounts, GradientCopy, Implementation, MemoryTerms, StageTerms
from .workspace import TO_90, workspace

Fit = Literal["yes", "at_risk", "no"]

@dataclass(frozen=True, slots=True)
class StageMemory:
    """The ledger of one stage's largest ranks. `rows` add up: all to `device`, all but the context to `reserved`.

    `in_flight`: microbatches' worth of the stage's activations held at once.
    """

    stage: int
    rank_class: str
    rows: tuple[Row, ...]
    allocated: Estimate
    reserved: Estimate
    device: Estimate
    context: Estimate
    capacity_bytes: int
    in_flight: Fraction

    def row(self, name: str) -> Row:
        """The row called `name`."""
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True, slots=True)
class Residuals:
    """What the model itself leaves: relative half-widths of the 90 % interval of allocated memory."""

    shown: float
    experts: float
    not_shown: float


def load_residuals() -> Residuals:
    """The half-widths in `memory_constants.csv`, where their source stands."""
    text = files(__package__).joinpath("memory_constants.csv").read_text(encoding="utf-8")
    values = {row["name"]: float(row["value"]) for row in csv.DictReader(text.splitlines())}
    return Residuals(*(values[f"residual_{name}"] for name in ("shown", "experts", "not_shown")))


class DeviceMemory(NamedTuple):
    """What a data sheet says of memory that is not tensors, ready for intervals; shares are of reserved memory.

    `*_below` and `*_above`: from the value to the ends of its 90 % interval.
    """

    workspace: int
    workspace_below: float
    workspace_above: float
    share: float
    share_below: float
    share_above: float
    context: Estimate
    capacity: int
    deciders: tuple[Decider, ...]


def device_memory(sheet: DeviceSheet, implementation: Implementation = BARE) -> DeviceMemory:
    """The figures of `sheet`, in bytes."""
    scratch, share, context = workspace(sheet, implementation), sheet.allocator_reserve, sheet.context
    deciders = (
        Decider("kernel workspace", sheet.workspace.quantity),
        Decider("allocator reserve", share.quantity),
        Decider("framework context", context.quantity),
        Decider("device memory", sheet.capacity),
    )
    low = max(0.0, context.value - TO_90 * (context.value - context.low))
    high = context.value + TO_90 * (context.high - context.value)
    return DeviceMemory(
        workspace=scratch.value,
        workspace_below=scratch.below,
        workspace_above=scratch.above,
        share=share.value,
        share_below=TO_90 * (share.value - share.low) / (1 + share.value),
        share_above=TO_90 * (share.high - share.value) / (1 + share.value),
        context=_bytes(int(context.value), low, high, deciders[2:3]),
        capacity=int(sheet.capacity.value),
        deciders=deciders,
    )


@dataclass(slots=True)
class MemoryModel:
    """What ledgers of one model and workload share: terms, written rows, deciders. One serves every plan."""

    model: Transformer
    workload: Workload
    implementation: Implementation = BARE
    terms: MemoryTerms = field(init=False, repr=False)
    residuals: Residuals = field(init=False, repr=False)
    _rows: dict[tuple[object, ...], tuple[Row, ...]] = field(default_factory=dict, repr=False)
    _devices: dict[str, DeviceMemory] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.terms = MemoryTerms(self.model, self.workload, self.implementation)
        self.residuals = load_residuals()

    def fixed_rows(
        self, terms: StageTerms, amounts: Amounts, flight: InFlight, sheet: DeviceSheet, pipelined: bool
    ) -> tuple[Row, ...]:
        """The rows that do not depend on the stage's place in the pipeline."""
        key = (id(terms), amounts.moment, flight.heads, flight.put_off, flight.before_loss, sheet.sha256, pipelined)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = fixed_rows(self.workload, amounts, terms, sheet, pipelined)
        return found

    def device(self, sheet: DeviceSheet) -> DeviceMemory:
        """What the ledger takes from a data sheet."""
        found = self._devices.get(sheet.sha256)
        if found is None:
            found = self._devices[sheet.sha256] = device_memory(sheet, self.implementation)
        return found


def memory_ledger(
    plan: Plan, model: Transformer, workload: Workload, cluster: Cluster, memory: MemoryModel | None = None
) -> tuple[StageMemory, ...]:
    """The ledger of every stage. `memory` carries what earlier plans of the same model and workload have computed."""
    memory = memory or MemoryModel(model, workload)
    return tuple(stage_memory(plan, index, memory, stage_device(plan, index, cluster)) for index in range(plan.pipeline))


def stage_amounts(plan: Plan, index: int, terms: MemoryTerms, sheet: DeviceSheet) -> Amounts:
    """The bytes of stage `index` on a device of type `sheet`, without rows and intervals: the ledger's cheap form."""
    flight = terms.flight(plan, index)
    return terms.stage(plan, index).amounts(flight, workspace(sheet, terms.implementation).value, plan.pipeline > 1)


def largest_amounts(plan: Plan, terms: MemoryTerms, cluster: Cluster) -> tuple[int, Amounts]:
    """The stage with the least memory left and its bytes: what decides whether the plan fits, without rows.

    Of stages that are alike the first holds the most microbatches, so only it is looked at. Mixed device types are
    looked at one by one.
    """
    mixed, best, left = len(cluster.nodes) > 1, -1, 0.0
    found: Amounts | None = None
    previous: tuple[object, ...] = ()
    for index, stage in enumerate(plan.stages):
        moe = moe_layers(terms.model, stage.first, stage.last)
        alike = (stage.layers, moe, stage.mesh, stage.embedding, stage.head, stage.recompute, stage.layouts)
        if alike == previous and not mixed:
            continue
        previous = alike
        sheet = stage_device(plan, index, cluster)
        amounts = stage_amounts(plan, index, terms, sheet)
        room = sheet.capacity.value - amounts.allocated
        if found is None or room < left:
            best, found, left = index, amounts, room
    assert found is not None, "a plan has at least one stage"
    return best, found


def stage_memory(plan: Plan, index: int, memory: MemoryModel, sheet: DeviceSheet) -> StageMemory:
    """The ledger of stage `index` alone, on devices of type `sheet`."""
    stages, device = plan.pipeline, memory.device(sheet)
    flight = memory.terms.flight(plan, index)
    terms = memory.terms.stage(plan, index)
    amounts = terms.amounts(flight, device.workspace, stages > 1)
    allocated = amounts.allocated
    low, high = _allocated_interval(plan, index, memory, device, terms, flight, allocated)

    # The errors of allocated memory and of the reserve are independent; the reserve is never negative.
    ratio, reserve = 1 + device.share, int(allocated * device.share + 0.5)
    reserved, context = allocated + reserve, device.context
    reserved_low = max(low, reserved - hypot(reserved - low * ratio, reserved * device.share_below))
    reserved_high = reserved + hypot(high * ratio - reserved, reserved * device.share_above)

    deciders = device.deciders
    fixed = memory.fixed_rows(terms, amounts, flight, sheet, stages > 1)
    return StageMemory(
        stage=index,
        rank_class=_rank_class(plan.stages[index], stages),
        rows=(
            *fixed[:3],
            in_flight_row(terms.shape, amounts, flight),
            *fixed[3:],
            reserve_row(memory.workload, reserve),
        ),
        allocated=_bytes(allocated, low, high, deciders[:1]),
        reserved=_bytes(reserved, reserved_low, reserved_high, deciders[:2]),
        device=_bytes(reserved + int(context.value), reserved_low + context.low, reserved_high + context.high, deciders),
        context=context,
        capacity_bytes=device.capacity,
        in_flight=flight.microbatches,
    )


def may_fit(plan: Plan, index: int, memory: MemoryModel, sheet: DeviceSheet) -> bool:
    """Whether stage `index` is not sure to be too large: what `fits` says of its ledger, without the ledger."""
    device, flight = memory.device(sheet), memory.terms.flight(plan, index)
    terms = memory.terms.stage(plan, index)
    allocated = terms.amounts(flight, device.workspace, plan.pipeline > 1).allocated
    low, _ = _allocated_interval(plan, index, memory, device, terms, flight, allocated)
    return low + device.context.low <= device.capacity


def _bytes(value: int, low: float, high: float, deciders: tuple[Decider, ...]) -> Estimate:
    return Estimate(float(value), low, high, Dimension.BYTES, Grade.ESTIMATED, deciders)


def _allocated_interval(
    plan: Plan,
    index: int,
    memory: MemoryModel,
    device: DeviceMemory,
    usual: StageTerms,
    flight: InFlight,
    value: int,
) -> tuple[float, float]:
    """The 90 % interval of allocated bytes, `value` being the usual case.

    The model's residual and the spread of the kernels' workspace, which are independent, around each case that is not
    stated: the attention kernel, when the copy of narrow gradients is alive, how the loss is formed, and how much of what
    is offloaded has left the device.
    """
    terms, away = memory.terms, memory.implementation.offloaded
    (flash, kernel), (step, copy, twice), (in_place, loss) = terms.attentions, terms.copies, terms.losses
    copied = usual.shape.copy is not None and usual.shape.copy != "sharded"

    def allocated(attention: Attention, gradient_copy: GradientCopy, formed: Loss, least: bool = False) -> int:
        case = terms.stage(plan, index, attention, gradient_copy, formed)
        amounts = case.amounts(flight, device.workspace, plan.pipeline > 1)
        return amounts.allocated - (sum(getattr(amounts, name) for name in away) if least else 0)

    open_loss = usual.shape.head and in_place is not loss
    open_cases = flash is not kernel or (copied and step is not copy) or open_loss or bool(away)
    smallest = allocated(flash, step, in_place, True) if open_cases else value
    largest = allocated(kernel, twice, loss) if copied and twice is not copy else value
    residuals = memory.residuals
    width = residuals.experts if memory.model.moe is not None else residuals.shown
    if _not_shown(plan, index, memory.workload) or not terms.shown:
        width = residuals.not_shown
    low = smallest - hypot(width * smallest, device.workspace_below)
    return max(0.0, low), largest + hypot(width * largest, device.workspace_above)


def _not_shown(plan: Plan, index: int, workload: Workload) -> bool:
    """Whether the stage has what no measured run of the fit shows."""
    stage, precision = plan.stages[index], workload.precision
    return (
        plan.zero == 3
        or "fp8" in (precision.parameters, precision.gradients, precision.moments)
        or stage.mesh.context > 2
        or plan.schedule is Schedule.ZB_H1
        or bool(stage.layouts)
    )


def _rank_class(stage: Stage, stages: int) -> str:
    if stages == 1:
        return "all ranks"
    held = " and ".join(name for name, here in (("embedding", stage.embedding), ("head", stage.head)) if here)
    return f"ranks with {held}" if held else "ranks of layers alone"


def stage_device(plan: Plan, index: int, cluster: Cluster) -> DeviceSheet:
    """The device type of stage `index`: where types are mixed, that of least memory among those the stage can meet.

    With the pipeline outermost in the plan's order a stage is the next run of devices in the cluster's numbering;
    otherwise it reaches into every node.
    """
    if len(cluster.nodes) == 1:
        return cluster.nodes[0].device
    contiguous = plan.pipeline == 1 or plan.order[-1] == "pipeline"
    first = sum(stage.mesh.devices for stage in plan.stages[:index])
    last = first + plan.stages[index].mesh.devices
    met: list[DeviceSheet] = []
    start = 0
    for group in cluster.nodes:
        end = start + group.devices
        if not contiguous or (first < end and start < last):
            met.append(group.device)
        start = end
    return min(met or [group.device for group in cluster.nodes], key=lambda sheet: sheet.capacity.value)


def fits(memory: StageMemory) -> Fit:
    """Whether the stage fits: `no` where even the low end of allocated memory and context passes the capacity.

    The reserve is partly elastic (near a full card it shrinks), so reserved memory warns and does not refuse: `yes`
    needs the high end of device-visible memory within the capacity, and what lies between is `at_risk`.
    """
    if memory.allocated.low + memory.context.low > memory.capacity_bytes:
        return "no"
    return "yes" if memory.device.high <= memory.capacity_bytes else "at_risk"


def feasible(ledger: tuple[StageMemory, ...]) -> Fit:
    """The verdict of a plan: that of its worst stage."""
    found = {fits(memory) for memory in ledger}
    return "no" if "no" in found else "at_risk" if "at_risk" in found else "yes"


def peak_stage(ledger: tuple[StageMemory, ...]) -> int:
    """The stage with the least headroom; the first of equal ones."""
    return min(range(len(ledger)), key=lambda index: headroom_bytes(ledger[index]))


def headroom_bytes(memory: StageMemory) -> int:
    """Capacity less device-visible memory; negative where it does not suffice."""
    return memory.capacity_bytes - int(memory.device.value)


def excess_bytes(memory: StageMemory) -> int:
    """What allocated memory and context need beyond the capacity, the limit that nothing stretches; 0 within it."""
    return max(0, int(memory.allocated.value + memory.context.value) - memory.capacity_bytes)
