"""The operator graph of the transformer family, from its shapes: dense, grouped-query, latent attention, gated, experts.

Dims: `batch` sequences, `sequence` tokens, `hidden`, `heads` of width `head`, `inner` of an MLP, `experts` with `capacity`
tokens each, `vocabulary`. Parameters and forward FLOPs are those of `layers` and `transformer`, exactly; where tokens do not
divide by experts the capacity is rounded up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .building import Building, Handle, use
from .graph import OperatorGraph
from .layers import is_moe, query_key_dim, value_dim
from .operator import WHOLE, Kind, Role, Split, Use
from .transformer import Transformer


@dataclass(frozen=True, slots=True)
class Shape:
    """What a block is run on: sequences of one microbatch of all replicas, tokens a sequence, how attention is done."""

    batch: int
    sequence: int
    causal: bool = True
    fused_attention: bool = True


def transformer_graph(
    model: Transformer,
    shape: Shape,
    *,
    layers: tuple[int, int] | None = None,
    embedding: bool = True,
    head: bool = True,
    dtype: str = "bf16",
    vocabulary: int | None = None,
) -> OperatorGraph:
    """Layers `first` to `last`, inclusive (default: all), with embedding and head where asked for.

    `vocabulary`: rows of the token table after padding. Raises GraphError for shapes that cannot be.
    """
    first, last = layers or (0, model.layers - 1)
    build = Building(dtype)
    rows = vocabulary or model.vocabulary
    table: Handle | None = None
    tokens = {"batch": shape.batch, "sequence": shape.sequence}
    if embedding or (head and model.tied_embeddings):
        table = build.parameter("table", {"vocabulary": rows, "hidden": model.hidden})
    if embedding and table is not None:
        ids = build.source("tokens", tokens, Role.INDEX, "int64")
        x = positioned(build, model, build.embedding("embedding", ids, table))
    else:
        x = build.source("stream", {**tokens, "hidden": model.hidden})
    for layer in range(first, last + 1):
        x = block(build, f"layer{layer}", model, shape, x, moe=is_moe(model, layer))
    if head:
        x = loss(build, model, x, table if model.tied_embeddings else None, tokens, rows)
    build.sink(x)
    return build.finish()


def positioned(build: Building, model: Transformer, x: Handle) -> Handle:
    """Embedded tokens with learned positions, and a norm, where the model has them."""
    if model.learned_positions:
        positions = build.parameter("positions", {"position": model.learned_positions, "hidden": model.hidden})
        x = build.elementwise("add_positions", [x], parameters=[positions])
    return norm(build, "embedding_norm", model, x) if model.embedding_norm else x


def block(build: Building, name: str, model: Transformer, shape: Shape, x: Handle, *, moe: bool) -> Handle:
    """One layer on the residual stream `x`."""

    def attend(inner: Handle) -> Handle:
        return attention(build, f"{name}.attention", model, shape, inner)

    def transform(inner: Handle) -> Handle:
        if moe:
            return experts(build, f"{name}.moe", model, inner)
        return mlp(build, f"{name}.mlp", model, model.ffn, inner)

    if model.norms_per_layer == 1:
        # Attention and MLP side by side on one norm (Falcon, GPT-J).
        inner = norm(build, f"{name}.norm", model, x)
        return build.elementwise(f"{name}.add", [x, attend(inner), transform(inner)], linear=True)
    for part, work in (("attention", attend), ("mlp", transform)):
        x = residual(build, f"{name}.{part}", model, x, work)
    return x


def residual(build: Building, name: str, model: Transformer, x: Handle, work: Callable[[Handle], Handle]) -> Handle:
    """x + work(norm(x)); with four norms a layer, x + norm(work(norm(x)))."""
    inner = norm(build, f"{name}_norm", model, x) if model.norms_per_layer >= 2 else x
    inner = work(inner)
    if model.norms_per_layer == 4:
        inner = norm(build, f"{name}_post_norm", model, inner)
    return build.elementwise(f"{name}_add", [x, inner], linear=True)


def norm(build: Building, name: str, model: Transformer, x: Handle, over: tuple[str, ...] = ("hidden",)) -> Handle:
    """A norm over dims with the model's parameters."""
    return build.norm(name, x, over, bias=model.norm == "layer")


def attention(
    build: Building, name: str, model: Transformer, shape: Shape, x: Handle, memory: Handle | None = None, *, buckets: int = 0
) -> Handle:
    """Projections, core and output projection; keys and values from `memory` in cross attention.

    `buckets`: rows of a learned table of relative positions (T5).
    """
    operands = _latent(build, name, model, x) if model.latent is not None else _projected(build, name, model, x, memory)
    held: list[Use] = []
    if model.attention_sinks:
        sinks = build.parameter(f"{name}.sinks", {"heads": model.heads})
        held.append(use(sinks, role="bias"))
    if buckets:
        table = build.parameter(f"{name}.relative", {"bucket": buckets, "heads": model.heads})
        held.append(Use(table.name, (WHOLE, "heads"), "bias"))
    query = operands[0]
    keys = next(one for role, one in zip(_ROLES, operands, strict=False) if role == "key").size("sequence")
    sizes = {
        "batch": query.size("batch"), "heads": model.heads, "sequence": query.size("sequence"), "keys": keys,
    }  # fmt: skip
    out = build.tensor(
        f"{name}.core.out",
        {"batch": sizes["batch"], "sequence": sizes["sequence"], "heads": model.heads, "head": value_dim(model)},
    )
    causal = shape.causal and memory is None
    if shape.fused_attention:
        inputs = [_operand(role, one, model) for role, one in zip(_ROLES, operands, strict=False)]
        build.add(
            f"{name}.core", Kind.ATTENTION, inputs, [use(out, ("head",))], sizes,
            parameters=held, splits={"keys": Split.STATISTICS}, causal=causal,
        )  # fmt: skip
    else:
        _unfused(build, f"{name}.core", model, operands, out, sizes, held)
    (done,) = build.linear(
        f"{name}.output", out, ("heads", "head"), {"out": {"hidden": model.hidden}}, bias=model.output_bias
    )
    return done


_ROLES = ("query", "key", "value", "key_shared")


def _operand(role: str, handle: Handle, model: Transformer) -> Use:
    """Queries along `sequence`, the others along `keys`; fewer key heads follow the query heads."""
    along = {"sequence": "sequence" if role == "query" else "keys", "heads": "heads", "batch": "batch"}
    few = role in ("key", "value") and model.kv_heads < model.heads
    loops = tuple("heads" if dim == "kv_heads" else along.get(dim, WHOLE) for dim in handle.dims)
    return Use(handle.name, loops, role, few)


def _projected(build: Building, name: str, model: Transformer, x: Handle, memory: Handle | None) -> tuple[Handle, ...]:
    """Query, key and value, one fused product (of `memory` a second), with norms and rotary positions where there are."""
    full = {"heads": model.heads, "head": model.head_dim}
    few = model.kv_heads < model.heads
    key = {"kv_heads" if few else "heads": model.kv_heads, "head": model.head_dim}
    follows = {column: {"kv_heads": "heads"} for column in ("key", "value")} if few else None
    columns = {"query": full, "key": key, "value": key}
    if memory is None:
        q, k, v = build.linear(f"{name}.qkv", x, ("hidden",), columns, bias=model.attention_bias, repeats=follows)
    else:
        (q,) = build.linear(f"{name}.query", x, ("hidden",), {"query": full}, bias=model.attention_bias)
        rest = {"key": {"heads": model.kv_heads, "head": model.head_dim}}
        rest["value"] = rest["key"]
        k, v = build.linear(f"{name}.key_value", memory, ("hidden",), rest, bias=model.attention_bias)
    if model.qk_norm or model.wide_qk_norm:
        q = norm(build, f"{name}.query_norm", model, q, tuple(full) if model.wide_qk_norm else ("head",))
        k = norm(build, f"{name}.key_norm", model, k, tuple(key) if model.wide_qk_norm else ("head",))
    if not model.learned_positions and memory is None:
        q, k = rotary(build, f"{name}.rotary", q, k, few=few)
    return q, k, v


def rotary(build: Building, name: str, q: Handle, k: Handle, *, few: bool = False) -> tuple[Handle, Handle]:
    """Rotary positions on queries and keys, one operator. A key without heads is shared by all of them."""
    outs = [build.tensor(f"{name}.{part}", dict(zip(h.dims, h.sizes, strict=True))) for part, h in (("query", q), ("key", k))]
    sizes = {dim: size for dim, size in zip(q.dims, q.sizes, strict=True) if dim != "head"}

    def of(handle: Handle, role: str) -> Use:
        loops = tuple("heads" if d == "kv_heads" else d if d in sizes else WHOLE for d in handle.dims)
        return Use(handle.name, loops, role, few and role == "key")

    build.add(
        name, Kind.ELEMENTWISE, [of(q, "query"), of(k, "key")], [of(outs[0], "query"), of(outs[1], "key")], sizes
    )
    return outs[0], outs[1]


def _latent(build: Building, name: str, model: Transformer, x: Handle) -> tuple[Handle, ...]:
    """MLA (DeepSeek-V2, arXiv 2405.04434, section 2.1): query, key, value, and the rotary key that all heads share."""
    latent = model.latent
    assert latent is not None
    full = {"heads": model.heads, "head": query_key_dim(model)}
    if latent.q_rank is None:
        (q,) = build.linear(f"{name}.query", x, ("hidden",), {"query": full})
    else:
        rank = {"out": {"query_rank": latent.q_rank}}
        (down,) = build.linear(f"{name}.query_down", x, ("hidden",), rank, bias=model.attention_bias)
        down = norm(build, f"{name}.query_rank_norm", model, down, ("query_rank",))
        (q,) = build.linear(f"{name}.query_up", down, ("query_rank",), {"query": full})
    columns = {"latent": {"key_rank": latent.kv_rank}, "rope": {"rope": latent.rope_head_dim}}
    c, rope = build.linear(f"{name}.key_value_down", x, ("hidden",), columns, bias=model.attention_bias)
    c = norm(build, f"{name}.key_rank_norm", model, c, ("key_rank",))
    wide = {
        "key": {"heads": model.heads, "nope": latent.nope_head_dim},
        "value": {"heads": model.heads, "width": latent.value_head_dim},
    }
    k, v = build.linear(f"{name}.key_value_up", c, ("key_rank",), wide)
    q, rope = rotary(build, f"{name}.rotary", q, rope)
    return q, k, v, rope


def _unfused(
    build: Building, name: str, model: Transformer, operands: tuple[Handle, ...], out: Handle,
    sizes: dict[str, int], held: list[Use],
) -> None:  # fmt: skip
    """Scores, softmax and values as three operators: every score is a tensor."""
    roles = dict(zip(_ROLES, operands, strict=False))
    head = query_key_dim(model)
    scores = build.tensor(f"{name}.scores", sizes)
    inputs = []
    for role in ("query", "key"):
        one = _operand(role, roles[role], model)
        widened = tuple("head" if loop == WHOLE else loop for loop in one.loops)
        inputs.append(Use(one.tensor, widened, "x" if role == "query" else "weight", one.repeats))
    build.add(
        f"{name}.scores", Kind.BATCHED_MATMUL, inputs, [use(scores)], {**sizes, "head": head},
        splits={"head": Split.SUM}, parameters=held,
    )  # fmt: skip
    probabilities = build.softmax(f"{name}.softmax", scores, "keys")
    one = _operand("value", roles["value"], model)
    value = Use(one.tensor, tuple("head" if loop == WHOLE else loop for loop in one.loops), "weight", one.repeats)
    build.add(
        f"{name}.values", Kind.BATCHED_MATMUL, [use(probabilities), value], [use(out)],
        {**sizes, "head": value_dim(model)}, splits={"keys": Split.SUM},
    )  # fmt: skip


def mlp(build: Building, name: str, model: Transformer, ffn: int, x: Handle, *, batch: tuple[str, ...] = ()) -> Handle:
    """One MLP of inner width `ffn`; `batch` dims have a weight of their own each (experts)."""
    kind = Kind.EXPERTS if batch else Kind.MATMUL
    inner = {"inner": ffn}
    columns = {"gate": inner, "up": inner} if model.gated else {"up": inner}
    wide = build.linear(f"{name}.up", x, ("hidden",), columns, bias=model.mlp_bias, batch=batch, kind=kind)
    act = build.elementwise(f"{name}.activation", wide)
    (out,) = build.linear(
        f"{name}.down", act, ("inner",), {"out": {"hidden": model.hidden}}, bias=model.mlp_bias, batch=batch, kind=kind
    )
    return out


def experts(build: Building, name: str, model: Transformer, x: Handle) -> Handle:
    """Routing, dispatch, routed experts, combine, and shared experts beside them.

    Tokens reach an expert in slots, top_k x tokens / experts a sequence: dividing tokens divides slots (Lepikhin et al. 2020,
    arXiv 2006.16668, section 3.2).
    """
    moe = model.moe
    assert moe is not None
    batch, sequence = x.size("batch"), x.size("sequence")
    gates = _routing(build, f"{name}.router", model, x)
    capacity = -(-sequence * moe.top_k // moe.experts)
    slots = build.tensor(
        f"{name}.slots", {"experts": moe.experts, "batch": batch, "capacity": capacity, "hidden": model.hidden}
    )
    sizes = {"batch": batch, "sequence": sequence, "experts": moe.experts, "hidden": model.hidden}
    table = Use(gates.name, ("batch", "sequence", WHOLE), "gates")
    by_slot = ("experts", "batch", "sequence", "hidden")
    build.add(f"{name}.dispatch", Kind.DISPATCH, [use(x), table], [Use(slots.name, by_slot)], sizes)
    done = mlp(build, f"{name}.experts", model, moe.ffn, slots, batch=("experts",))
    out = build.tensor(f"{name}.combined", {"batch": batch, "sequence": sequence, "hidden": model.hidden})
    build.add(
        f"{name}.combine", Kind.COMBINE, [Use(done.name, by_slot), table], [use(out)], sizes,
        splits={"experts": Split.SUM},
    )  # fmt: skip
    if not moe.shared_experts:
        return out
    shared = mlp(build, f"{name}.shared", model, moe.shared_experts * moe.shared_ffn, x)
    if moe.shared_gate:
        (gate,) = build.linear(f"{name}.shared_gate", x, ("hidden",), {"out": {"one": 1}})
        scaled = build.tensor(f"{name}.shared_scaled", dict(zip(shared.dims, shared.sizes, strict=True)))
        build.add(
            f"{name}.shared_scale", Kind.ELEMENTWISE, [use(shared), Use(gate.name, ("batch", "sequence", WHOLE), "gates")],
            [use(scaled)], dict(zip(shared.dims, shared.sizes, strict=True)),
        )  # fmt: skip
        shared = scaled
    return build.elementwise(f"{name}.add_shared", [out, shared], linear=True)


def _routing(build: Building, name: str, model: Transformer, x: Handle) -> Handle:
    """The choice of `top_k` experts a token with their gates; every device that routes a token sees all experts."""
    moe = model.moe
    assert moe is not None
    weight = build.parameter(f"{name}.weight", {"hidden": model.hidden, "expert": moe.experts})
    held = [Use(weight.name, ("hidden", "expert"), "weight")]
    if moe.router_bias:
        bias = build.parameter(f"{name}.bias", {"expert": moe.experts})
        held.append(Use(bias.name, ("expert",), "bias"))
    tokens = {"batch": x.size("batch"), "sequence": x.size("sequence")}
    gates = build.tensor(f"{name}.gates", {**tokens, "choice": moe.top_k})
    build.add(
        name, Kind.ROUTING, [use(x)], [Use(gates.name, ("batch", "sequence", WHOLE), "gates")],
        {**tokens, "hidden": model.hidden, "expert": moe.experts}, parameters=held,
        splits={"hidden": Split.STATISTICS, "expert": Split.WHOLE},
    )  # fmt: skip
    return gates


def loss(
    build: Building, model: Transformer, x: Handle, table: Handle | None, tokens: dict[str, int], vocabulary: int
) -> Handle:
    """The final norm, the head and the loss of each token."""
    if model.final_norm:
        x = norm(build, "final_norm", model, x)
    (logits,) = build.linear(
        "head", x, ("hidden",), {"logits": {"vocabulary": vocabulary}}, bias=model.head_bias, weight=table
    )
    labels = build.source("labels", tokens, Role.INDEX, "int64")
    return build.cross_entropy("loss", logits, labels, "vocabulary")
