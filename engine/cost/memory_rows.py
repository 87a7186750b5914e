"""The rows of the memory ledger as text: what each is, by which formula, and why one does not apply.

Symbols: P parameters on the rank, s b h sequence x microbatch x hidden on the rank, t tensor degree, V vocabulary, e
bytes of an element. Sources by key: [K22] Korthikanti et al. 2022, arXiv 2205.05198; [Z] Rajbhandari et al. 2020,
arXiv 1910.02054; [N21] Narayanan et al. 2021, arXiv 2104.04473; [sheet] the device's data sheet. Nothing is computed
here.
"""

from __future__ import annotations

from ..frozen import dataclass
from ..hardware import DeviceSheet
from ..model import Workload
from ..plan import Recompute
from .activations import Selective
from .in_flight import InFlight
from .memory_terms import Amounts, GradientCopy, Shape, StageTerms


@dataclass(frozen=True, slots=True)
class Row:
    """One row: bytes at the stage's peak. `note`: why it does not apply, or what it leaves out; "" where neither."""

    name: str
    bytes: int
    formula: str
    note: str = ""
    modelled: bool = True


#: The names of the rows, in order: always all of them.
ROW_NAMES = (
    "parameters",
    "gradients",
    "optimizer state",
    "in-flight activations",
    "layer workspace",
    "logits and loss",
    "gathered parameters",
    "communication buffers",
    "framework context",
    "allocator reserve",
)

_LAYOUTS = "computed for the usual layout; the layouts stated for this stage are not modelled here"
_FP8 = "a transposed copy of fp8 weights, which some kernels keep, is not counted"
_LOSS = "how the framework forms the loss is not known: the larger is taken, the low end is in place"
_STEP = "the stage peaks in the optimizer's step, when it is not alive"


def fixed_rows(workload: Workload, amounts: Amounts, terms: StageTerms, sheet: DeviceSheet, pipelined: bool) -> tuple[Row, ...]:
    """All rows, in order, but in-flight activations and the allocator reserve, which differ from stage to stage."""
    shape, precision = terms.shape, workload.precision
    usual, note = not shape.layouts, _LAYOUTS if shape.layouts else ""
    no_state = f"{workload.optimizer.name} keeps no moments and there is no master copy"
    gradients = _sharded(precision.gradients, shape, 2)
    copy, copy_note = _copy(shape, workload, amounts)
    return (
        Row(
            "parameters",
            amounts.parameters,
            _sharded(precision.parameters, shape, 3),
            "; ".join(filter(None, (note, _FP8 if precision.parameters == "fp8" else ""))),
            usual,
        ),
        Row("gradients", amounts.gradients, gradients + copy, "; ".join(filter(None, (note, copy_note))), usual),
        Row("optimizer state", amounts.optimizer, *_optimizer(shape, workload, note, no_state), usual),
        _workspace(shape, amounts, terms, sheet),
        _logits(shape, amounts),
        _gathered(shape, amounts),
        _buffers(shape, amounts, pipelined),
        Row("framework context", int(sheet.context.value), f"[sheet] {sheet.name}: driver context and communicators"),
    )


def in_flight_row(shape: Shape, amounts: Amounts, flight: InFlight) -> Row:
    """The row of activations held between forward and backward passes."""
    if amounts.moment == "step":
        return Row("in-flight activations", 0, "0 at the peak", _STEP)
    kept = {
        Recompute.NONE: "all of each layer, tensor by tensor [K22]",
        Recompute.SELECTIVE: "attention's and every second product's output of each layer"
        if shape.selective is Selective.OPERATORS
        else "each layer without its attention core [K22]",
        Recompute.FULL: f"{'what enters' if shape.operators else 'e s b h'} a layer, and the stage's output [K22]",
    }[shape.recompute]
    whole = "microbatch" if flight.chunks == 1 else "microbatches"
    unit = whole if flight.parts == 1 else f"chunks of 1/{flight.parts} of the stage"
    notes = [_LAYOUTS] if shape.layouts else []
    if not shape.attention_stated:
        notes.append("attention kernel not stated: taken as unfused, the larger; the low end is that of flash")
    if shape.balanced:
        notes.append("no capacity factor stated: tokens are taken as spread evenly over the experts")
    if flight.put_off:
        notes.append("an upper bound: a weight gradient that is put off holds part of a microbatch")
    formula = f"{flight.chunks} {unit} in flight [N21] x {kept}"
    return Row("in-flight activations", amounts.activations, formula, "; ".join(notes), not shape.layouts)


def reserve_row(workload: Workload, reserve: int) -> Row:
    """The row of what the allocator holds beyond live tensors."""
    note = "shapes vary from step to step: fragmentation may pass the range" if workload.dynamic_shapes else ""
    return Row("allocator reserve", reserve, "[sheet] share of allocated", note)


def _sharded(what: str, shape: Shape, from_zero: int) -> str:
    if shape.zero < from_zero or not shape.sharded:
        return f"{what} x P"
    dense, experts = shape.groups
    return f"{what} x P / {dense}" + (f", of experts / {experts}" if shape.experts else "") + " [Z]"


def _copy(shape: Shape, workload: Workload, amounts: Amounts) -> tuple[str, str]:
    """What a row of gradients says of the optimizer's wide copy of them: (formula, note)."""
    if shape.copy is None:
        return "", ""
    master = workload.precision.master or ""
    if amounts.moment == "step":
        return f" + {master} copy in the step", "the stage peaks in the optimizer's step"
    if shape.copy == "sharded":
        return f" + {_sharded(f'{master} copy', shape, 1)}", ""
    if shape.copy is GradientCopy.STEP:
        return "", f"their {master} copy is alive in the optimizer's step only, which needs less"
    again = f" + {workload.precision.gradients} again" if shape.copy is GradientCopy.TWICE else ""
    return f" + {master} copy{again}", "whether the copy stays after the step depends on the framework"


def _optimizer(shape: Shape, workload: Workload, note: str, no_state: str) -> tuple[str, str]:
    precision, moments = workload.precision, workload.optimizer.moments
    parts = [f"{precision.master} master"] if precision.master else []
    parts += [f"{moments} {precision.moments} moments"] if moments else []
    return (_sharded(f"({' + '.join(parts)})", shape, 1), note) if parts else ("0", no_state)


def _workspace(shape: Shape, amounts: Amounts, terms: StageTerms, sheet: DeviceSheet) -> Row:
    name, formula = "layer workspace", f"[sheet] {sheet.name}: kernels"
    if not terms.layer:
        return Row(name, amounts.workspace, formula, "no layer on this stage")
    if amounts.moment != "layer":
        when = "the loss" if amounts.moment == "loss" else "the optimizer's step"
        return Row(name, amounts.workspace, formula, f"the stage peaks in {when}, when no layer is in its backward pass")
    again = {
        Recompute.NONE: "",
        Recompute.SELECTIVE: " + what it computes again"
        if shape.selective is Selective.OPERATORS
        else ", or its attention core",
        Recompute.FULL: " + one layer's activations [K22]",
    }[shape.recompute]
    return Row(name, amounts.workspace, f"{formula} + one layer's gradients{again}")


def _logits(shape: Shape, amounts: Amounts) -> Row:
    name = "logits and loss"
    if not shape.head:
        return Row(name, 0, "0", "no head on this stage")
    if amounts.moment == "step":
        return Row(name, 0, "0 at the peak", _STEP)
    formula = f"max((e + {shape.loss.wide_bytes}) s b V, e (s b + h) V) / t"
    if shape.operators:
        formula = f"e + {shape.loss.wide_bytes} bytes an element of the logits"
    if amounts.moment == "loss":
        return Row(name, amounts.logits, formula, "" if shape.loss_stated else _LOSS)
    when = "the stage peaks in the backward pass of a layer, after that of the loss"
    if amounts.logits:
        return Row(name, amounts.logits, formula, f"{when}; what other microbatches still hold")
    return Row(name, 0, "0 at the peak", when)


def _gathered(shape: Shape, amounts: Amounts) -> Row:
    name = "gathered parameters"
    if shape.zero < 3:
        return Row(name, 0, "0", f"ZeRO {shape.zero} keeps parameters whole")
    if not shape.sharded:
        return Row(name, 0, "0", "a group of one rank has nothing to gather")
    if amounts.moment == "step":
        return Row(name, 0, "0 at the peak", _STEP)
    if shape.whole:
        return Row(name, amounts.gathered, "the stage's parameters, gathered over all microbatches of the pipeline [Z]")
    return Row(name, amounts.gathered, "parameters of two layers, one prefetched, and of embedding and head [Z]")


def _buffers(shape: Shape, amounts: Amounts, pipelined: bool) -> Row:
    name, outside = "communication buffers", "communicators' own buffers stand in the framework context"
    kept = "the stage" if shape.whole else "one layer"
    parts = [
        text
        for text, here in (
            ("2 x what leaves the stage" if shape.operators else "2 e s b h sent between stages", pipelined),
            ("e s b h gathered for tensor parallelism", shape.gathers_sequence),
            ("keys and values of two ring steps", shape.context),
            (f"gradients of {kept} before they are reduced [Z]", shape.zero >= 2 and shape.sharded),
        )
        if here
    ]
    if not parts:
        return Row(name, 0, "0", f"what is sent is reduced in place; {outside}")
    if amounts.moment == "step":
        return Row(name, 0, "0 at the peak", _STEP)
    return Row(name, amounts.buffers, " + ".join(parts), outside)
