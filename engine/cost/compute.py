"""Seconds of computation on one device: matrix products, the attention core, elementwise traffic, the head, the
optimizer.

Vocabulary: a *pass* is the forward pass of a layer, the part of its backward pass that the layer before waits for, or
its weight gradients; *work* is a pass by what limits it. Shapes: T tokens of a microbatch on the rank (sequence x
microbatch / context), h hidden, f inner width, V vocabulary, t tensor degree, e bytes of an element. Communication is
not here, nor plans.
"""

from __future__ import annotations

from typing import NamedTuple

from ..hardware import DeviceSheet, Ranged
from ..model import Attention, Linear, Transformer, Workload, linears, query_key_dim, value_dim
from ..plan import Mesh
from .activations import element_bytes, expert_tokens
from .factors import Factors
from .states import expert_tensor, state_bytes

#: Rates taken where a device has no units for a dtype, nearest first.
_INSTEAD = {"fp8": ("bf16", "fp16"), "bf16": ("fp32",), "fp16": ("fp32",), "tf32": ("fp32",), "fp32": ()}

#: Local widths of a layer that are multiples of this fill tiles and align rows to 128 bytes; the head's many columns
#: need only be aligned to 16 bytes.
ALIGNED, HEAD_ALIGNED = 64, 8


class Rates(NamedTuple):
    """What one device type gets: FLOP/s at large sizes (`gemm` by the linears' dtype, `wide` by 16-bit), bytes/s, s
    a kernel.
    """

    gemm: float
    wide: float
    side: float
    depth: float
    attention: float
    memory: float
    launch: float
    misaligned: float
    #: The dtype whose peak stands in for the compute dtype, "" where the sheet has that one.
    instead: str
    #: Seconds a layer and pass that the device idles; the share of hidden gathers that slows what hides them.
    stall: float = 0.0
    interference: float = 0.0
    #: Share of the loss's traffic through memory that is left where its kernels are fused.
    loss: float = 1.0


class Work(NamedTuple):
    """Seconds of one pass by what limits it, and its kernels. Kernels cost the host `launch` each whatever the
    device does.
    """

    gemm: float = 0.0
    attention: float = 0.0
    memory: float = 0.0
    kernels: int = 0

    @property
    def seconds(self) -> float:
        """On the device."""
        return self.gemm + self.attention + self.memory


class LayerWork(NamedTuple):
    """One layer and microbatch: forward, backward without weight gradients, weight gradients, the attention core
    again.
    """

    forward: Work
    backward: Work
    weight: Work
    core: Work


def peak_rate(sheet: DeviceSheet, dtype: str) -> tuple[float, str]:
    """The dense peak of `dtype` in FLOP/s; where the device has none, that of the nearest dtype, named."""
    for name in (dtype, *_INSTEAD.get(dtype, ()), *sheet.dtypes):
        if (rate := sheet.peak(name)) is not None:
            return rate.value, "" if name == dtype else name
    return 1.0, "none"


def device_rates(sheet: DeviceSheet, workload: Workload, factors: Factors, misaligned: float) -> Rates:
    """The sheet's peaks times its efficiencies, under `factors`. Attention and the head stay 16-bit under fp8."""
    e, dtype = sheet.efficiency, workload.precision.compute
    peak, instead = peak_rate(sheet, dtype)
    wide = peak_rate(sheet, "bf16")[0] if dtype == "fp8" else peak
    flash = workload.attention is not Attention.UNFUSED
    return Rates(
        gemm=peak * e.gemm.value * factors.gemm,
        wide=wide * e.gemm.value * factors.gemm,
        side=e.gemm_half_dims.side,
        depth=e.gemm_half_dims.depth,
        attention=wide * (e.attention_flash if flash else e.attention_unfused).value * factors.attention,
        memory=sheet.memory_bandwidth.value * e.memory.value * factors.memory,
        launch=sheet.launch.value * factors.launch,
        misaligned=misaligned,
        stall=_share(factors.stall, sheet, "stall"),
        interference=_share(factors.interference, sheet, "interference"),
        loss=_share(factors.loss, sheet, "loss") or 1.0,
        instead=instead,
    )


def _share(factor: float | None, sheet: DeviceSheet, name: str) -> float:
    """`factor`, or what the calibration in force says of `name`, or 0 where nothing is known of it."""
    if factor is not None:
        return factor
    known: Ranged | None = getattr(sheet.calibration, name, None)
    return known.value if known is not None else 0.0


def gemm_seconds(
    rates: Rates, m: float, n: float, k: float, element: int, *, peak: float | None = None, aligned: int = ALIGNED
) -> float:
    """Seconds of an (m x k)(k x n) product: 2 m n k FLOPs, or its three matrices through memory once, whichever is
    longer.

    The rate saturates with the smaller outer side s and the depth k (the sheet's half dims): gemm s / (s + side) k / (k
    + depth). A product with a width that is no multiple of `aligned` loses a stated share.
    """
    side = min(m, n)
    rate = (peak or rates.gemm) * side / (side + rates.side) * k / (k + rates.depth)
    if n % aligned or k % aligned:
        rate *= rates.misaligned
    moved = element * (m * k + k * n + m * n)
    return max(2 * m * n * k / rate, moved / rates.memory)


def local_shape(row: Linear, mesh: Mesh, kv_heads: int, heads: int) -> tuple[float, float]:
    """(outputs, inputs) of a matrix on one rank. Keys and values are at least one head a rank, so beyond `kv_heads`
    repeated.
    """
    degree = expert_tensor(mesh) if row.group == "expert" else mesh.tensor
    if row.split == "row":
        return row.outputs, row.inputs / degree
    if row.split == "none":
        return row.outputs, row.inputs
    if row.name == "qkv" and degree > kv_heads:
        head = row.outputs / (heads + 2 * kv_heads)
        return heads * head / degree + 2 * head, row.inputs
    return row.outputs / degree, row.inputs


def layer_work(
    model: Transformer, workload: Workload, mesh: Mesh, sequences: int, sequence_parallel: bool, moe: bool, rates: Rates
) -> LayerWork:
    """One layer and a microbatch of `sequences` on one rank.

    Products: forward (T, n, k), input gradient (T, k, n), weight gradient (n, k, T), each with its own shape and so its
    own rate. Experts: one product a local expert over its share of top_k T tokens.
    """
    e = element_bytes(workload)
    here = workload.sequence_length * sequences / mesh.context
    rows = linears(model, moe, fused=True)
    forward = backward = weight = 0.0
    for row in rows:
        n, k = local_shape(row, mesh, model.kv_heads, model.heads)
        tokens, copies = here, 1.0
        if row.group == "expert" and model.moe is not None:
            copies = max(1.0, model.moe.experts / mesh.expert)
            tokens = expert_tokens(model, mesh, int(here)) / copies
        elif row.split == "none" and sequence_parallel:
            tokens = here / mesh.tensor
        forward += copies * gemm_seconds(rates, tokens, n, k, e)
        backward += copies * gemm_seconds(rates, tokens, k, n, e)
        weight += copies * gemm_seconds(rates, n, k, tokens, e)
    core, core_back = attention_core(model, workload, mesh, sequences, rates)
    ahead, back = elementwise_bytes(model, workload, mesh, here, sequence_parallel, moe)
    # Norms, residual additions, activation; two more for rotary positions; routing and permuting for experts.
    small = model.norms_per_layer + 3 + (0 if model.learned_positions else 2) + (12 if moe else 0)
    kernels = len(rows) + core.kernels + small + (2 if mesh.tensor > 1 else 0)
    return LayerWork(
        forward=Work(forward, core.attention, core.memory + ahead / rates.memory, kernels),
        backward=Work(backward, core_back.attention, core_back.memory + back / rates.memory, kernels + core_back.kernels),
        weight=Work(weight, kernels=len(rows)),
        core=core,
    )


def attention_core(model: Transformer, workload: Workload, mesh: Mesh, sequences: int, rates: Rates) -> tuple[Work, Work]:
    """Scores and values of one layer, (forward, backward); queries are s / context long, keys s.

    FLOPs of the full matrix: 2 b (s / c) s (a / t) (query width + value width), Narayanan et al. 2021 (arXiv
    2104.04473). Fused (Dao et al. 2022, arXiv 2205.14135): half of it where causal, backward 2.5 times, nothing through
    memory. Unfused: all of it, backward twice, and each score through memory: softmax reads and writes it, dropout does
    so again with a byte of mask, and backwards each reads one operand more. An attention that is not stated counts as
    fused.
    """
    s, heads = workload.sequence_length, -(-model.heads // mesh.tensor)
    scores = sequences * s * s / mesh.context * heads
    flops = 2 * scores * (query_key_dim(model) + value_dim(model))
    if workload.attention is not Attention.UNFUSED:
        seconds = flops * (0.5 if workload.causal else 1.0) / rates.attention
        return Work(attention=seconds, kernels=1), Work(attention=2.5 * seconds, kernels=1)
    e, dropout = element_bytes(workload), workload.dropout > 0
    ahead = scores * (2 * e + (2 * e + 1 if dropout else 0))
    back = scores * (3 * e + (2 * e + 1 if dropout else 0))
    seconds = flops / rates.attention
    # Two products, softmax, perhaps dropout; four copies that bring heads forward and back.
    kernels = 8 if dropout else 7
    return (
        Work(attention=seconds, memory=ahead / rates.memory, kernels=kernels),
        Work(attention=2 * seconds, memory=back / rates.memory, kernels=kernels + 2),
    )


def elementwise_bytes(
    model: Transformer, workload: Workload, mesh: Mesh, here: float, sequence_parallel: bool, moe: bool
) -> tuple[float, float]:
    """Bytes of a layer's elementwise work through memory, (forward, backward), each operand counted once.

    A norm reads and writes h, backward reads two and writes one; dropout and residual addition read two, write one and
    a byte of mask; an activation reads f (gated: 2 f) and writes f, backward reads one f more and writes as much as it
    read; rotary positions read and write queries and keys. Fused as in Megatron-LM. Outside the tensor-parallel regions
    sequence parallelism divides the tokens by t (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2).
    """
    e, t, h = element_bytes(workload), mesh.tensor, model.hidden
    outside = here / t if sequence_parallel else here
    mask = 1 if workload.dropout > 0 else 0
    norms, gates = model.norms_per_layer, 2 if model.gated else 1
    ahead = outside * h * (norms * 2 * e + 2 * (3 * e + mask))
    back = outside * h * (norms * 3 * e + 2 * (3 * e + mask))
    if not model.learned_positions:
        width = (model.heads + model.kv_heads) * query_key_dim(model) / t
        ahead += here * 2 * e * width
        back += here * 2 * e * width
    inner = here * model.ffn / t
    if moe and model.moe is not None:
        pairs = expert_tokens(model, mesh, int(here))
        inner = pairs * model.moe.ffn / expert_tensor(mesh)
        inner += here * model.moe.shared_experts * model.moe.shared_ffn / t
        # Into and out of the experts' order: read and write h for every pair, both ways.
        ahead += pairs * h * 4 * e
        back += pairs * h * 4 * e
    ahead += inner * e * (gates + 1)
    back += inner * e * (2 * gates + 1)
    return ahead, back


def head_work(model: Transformer, workload: Workload, mesh: Mesh, sequences: int, vocabulary: int, rates: Rates) -> LayerWork:
    """The final norm, the product with the V / t columns of the head, and the loss over them.

    Loss in fp32 as Megatron-LM's vocabulary-parallel cross entropy does it: widen (read e, write 4), maximum (read 4),
    exponential (read 4, write 4), sum (read 4); backward: read and write 4, narrow (read 4, write e).
    """
    e = element_bytes(workload)
    here = workload.sequence_length * sequences / mesh.context
    columns = vocabulary / mesh.tensor
    h = model.hidden

    def product(m: float, n: float, k: float) -> float:
        return gemm_seconds(rates, m, n, k, e, peak=rates.wide, aligned=HEAD_ALIGNED)

    ahead = here * (columns * (e + 20) * rates.loss + h * 2 * e)
    back = here * (columns * (12 + e) * rates.loss + h * 3 * e)
    return LayerWork(
        forward=Work(product(here, columns, h), memory=ahead / rates.memory, kernels=9),
        backward=Work(product(here, h, columns), memory=back / rates.memory, kernels=5),
        weight=Work(product(columns, h, here), kernels=1),
        core=Work(),
    )


def embedding_work(model: Transformer, workload: Workload, mesh: Mesh, sequences: int, rates: Rates) -> LayerWork:
    """The token table: read and write h a token; its gradient is added to rows of the gradient's width. No FLOPs."""
    e, g = element_bytes(workload), state_bytes(workload).gradients
    here = workload.sequence_length * sequences / mesh.context
    tables = 2 if model.learned_positions else 1
    return LayerWork(
        forward=Work(memory=here * model.hidden * 2 * e * tables / rates.memory, kernels=2 * tables),
        backward=Work(memory=here * model.hidden * (e + 2 * g) * tables / rates.memory, kernels=2 * tables),
        weight=Work(),
        core=Work(),
    )


def optimizer_seconds(workload: Workload, parameters: float, rates: Rates, unfused: float) -> float:
    """One update of `parameters` on a rank, as bytes: read gradients twice (once for their norm), read and write master
    and moments.

    Parameters are written, and read where there is no master copy. Adam in mixed precision with fp32 gradients: 4 + 4 +
    2 x (4 + 8) + 2 = 34 bytes. `unfused`: traffic of separate kernels over a fused one.
    """
    each = state_bytes(workload)
    moved = 2 * each.gradients + 2 * each.optimizer + each.parameters * (1 if each.master else 2)
    return parameters * moved * (1.0 if workload.optimizer.fused else unfused) / rates.memory
