"""The model and the workload of a proposal: shapes with their documented defaults, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..document import parse_document
from ..frozen import dataclass
from ..model import (
    OPTIMIZER_MOMENTS,
    Attention,
    Dispatcher,
    LatentAttention,
    MixtureOfExperts,
    Optimizer,
    Precision,
    Transformer,
    Workload,
    parameters,
)
from ..quantity import Dimension
from .case import LeftOut
from .collector import Collector
from .schema import Model, TransformerShape, WorkloadChoice

if TYPE_CHECKING:
    from .resolve_graph import GraphCase

T = TypeVar("T")
#: Share by which the parameters of a graph may differ from those of the shapes beside it: biases that a family has or has not.
NEAR = 0.01
NEEDED_SHAPES = ("layers", "hidden", "heads", "ffn", "vocabulary")


def resolve_model(stated: Model | None, sequence_length: int | None, collect: Collector) -> Transformer | None:
    """The model as shapes, or None with what is missing noted. A referenced config file is read and kept as an input."""
    if stated is not None and stated.graph is not None and stated.config is None and stated.transformer is None:
        return None
    if stated is None or (stated.config is None and stated.transformer is None):
        collect.lacks(
            "model",
            "/model",
            "the model: 'model.config' (a config file), 'model.transformer' (shapes) or 'model.graph' (its operators)",
            "the model's config.json, or its layers, hidden, heads, ffn and vocabulary",
        )
        return None
    if stated.config is not None and stated.transformer is not None:
        collect.contradicts(
            "model_twice", "/model/transformer", "both 'model.config' and 'model.transformer' describe the model; keep one"
        )
    if stated.config is not None:
        return _from_config(stated.config.file, stated.config.kind, sequence_length, collect)
    assert stated.transformer is not None
    return transformer_of(stated.transformer, sequence_length, collect)


def resolve_graph(stated: Model | None, sequence_length: int | None, collect: Collector) -> GraphCase | None:
    """The operator graph that the proposal gives, here or in a file; None, too, with what its family lacks noted.

    Raises InputError for one that cannot be.
    """
    if stated is None or stated.graph is None:
        return None
    # Few proposals give one.
    from .resolve_family import family_graph
    from .resolve_graph import graph_document, read_graph

    path = "/model/graph"
    document, base, data = collect.loaded.document, path, stated.graph
    file = stated.graph.get("file")
    if isinstance(file, str) and len(stated.graph) == 1:
        raw, name, _ = collect.read(file, f"{path}/file", "graph")
        document, data = graph_document(raw, name)
        base = ""
    if "family" in data:
        return family_graph(data, document, base, path, sequence_length, collect)
    return read_graph(document, base, path, sequence_length)


def compare_graph(graph: GraphCase, model: Transformer, collect: Collector) -> None:
    """A contradiction where the graph has another number of parameters than the shapes beside it."""
    own, other = graph.parameters, parameters(model)
    if abs(own - other) > NEAR * other:
        said = f"'model.graph' has {own:,} parameters, and the shapes beside it amount to {other:,}"
        collect.contradicts("graph_parameters", graph.path, said)


def _from_config(file: str | None, kind: str | None, sequence_length: int | None, collect: Collector) -> Transformer | None:
    path = "/model/config"
    if file is None:
        collect.lacks("model", f"{path}/file", "'model.config.file'", "the path of the model's config.json")
        return None
    if kind is None:
        collect.assume("model.config.kind", f"{path}/kind", "hf-config", "the only kind of model configuration file")
    raw, name, _ = collect.read(file, f"{path}/file", "hf-config")
    # Imported where a file is there to read: most proposals have none, and lint is to start quickly.
    from ..importers import hf_config
    from ..importers.hf_config_keys import WINDOW_REASON

    document = parse_document(raw, name)
    assert isinstance(document.data, dict)
    found = hf_config.read(document.data, document.place)
    for field, (value, why) in found.assumed.items():
        collect.assume(f"model.{field}", f"{path}/file", value, why)
    collect.left_out += [
        LeftOut(name, keys, why, found.window if why == WINDOW_REASON else None) for why, keys in found.left_out
    ]
    if found.unread:
        collect.left_out.append(LeftOut(name, found.unread))
    if found.transformer.moe is not None and found.transformer.moe.capacity_factor is None:
        _assume_balance(f"{path}/file", collect)
    return found.transformer


def _assume_balance(path: str, collect: Collector) -> None:
    collect.assume("model.moe.imbalance", path, "1", "no router is known to balance its load; the busiest expert rank decides")


def transformer_of(
    shape: TransformerShape, sequence_length: int | None, collect: Collector, path: str = "/model/transformer"
) -> Transformer | None:
    """The shapes that stand at `path` with their documented defaults; None with what is missing noted."""
    section = path.strip("/").replace("/", ".")
    gaps = [name for name in NEEDED_SHAPES if getattr(shape, name) is None]
    if shape.moe is not None and shape.moe.ffn is not None and shape.moe.every in (None, 1):
        gaps = [name for name in gaps if name != "ffn" or (shape.moe.first_dense or 0) > 0]
    if shape.moe is not None:
        gaps += [f"moe.{name}" for name in ("experts", "top_k") if getattr(shape.moe, name) is None]
    if shape.mla is not None:
        needed = ("kv_rank", "rope_head_dim", "nope_head_dim", "value_head_dim")
        gaps += [f"mla.{name}" for name in needed if getattr(shape.mla, name) is None]
    for name in gaps:
        collect.lacks(
            "shapes",
            f"{path}/{name.replace('.', '/')}",
            f"'{section}.{name}'",
            "the model's configuration or its paper",
        )
    if shape.hidden and shape.heads and shape.head_dim is None and shape.hidden % shape.heads:
        collect.lacks(
            "shapes",
            f"{path}/head_dim",
            f"'{section}.head_dim': hidden {shape.hidden} is not divisible by heads {shape.heads}",
            "the model's configuration",
        )
        return None
    if gaps:
        return None
    return _filled(shape, sequence_length, collect, path)


def _filled(shape: TransformerShape, sequence_length: int | None, collect: Collector, path: str) -> Transformer | None:
    item = path.strip("/").replace("/", ".").replace("model.transformer", "model")
    assert shape.layers
    assert shape.hidden
    assert shape.heads
    assert shape.vocabulary
    family = shape.family or "gpt"
    if shape.family is None:
        collect.assume(f"{item}.family", f"{path}/family", "gpt", "documented default of a transformer description")
    llama = family == "llama"
    why = f"the {family} family"

    def choose(name: str, value: T | None, default: T) -> T:
        """The family's word where the description has none; an assumption of its own only where it is not the family's."""
        if value is None and name in ("kv_heads", "positions", "moe.ffn", "moe.every"):
            collect.assume(f"{item}.{name}", f"{path}/{name.replace('.', '/')}", default, why)
        return default if value is None else value

    biases = choose("biases", shape.biases, not llama)
    positions = shape.positions
    if positions is None and llama:
        positions = 0
    if positions is None:
        if sequence_length is None:
            return None
        positions = choose("positions", None, sequence_length)
    moe = None
    if shape.moe is not None:
        assert shape.moe.experts
        assert shape.moe.top_k
        ffn = shape.moe.ffn or choose("moe.ffn", None, shape.ffn or 0)
        shared = shape.moe.shared_experts or 0
        if shape.moe.imbalance is None and shape.moe.capacity_factor is None:
            _assume_balance(f"{path}/moe/imbalance", collect)
        moe = MixtureOfExperts(
            experts=shape.moe.experts,
            top_k=shape.moe.top_k,
            ffn=ffn,
            every=shape.moe.every or choose("moe.every", None, 1),
            first_dense=shape.moe.first_dense or 0,
            shared_experts=shared,
            shared_ffn=shape.moe.shared_ffn or (ffn if shared else 0),
            capacity_factor=shape.moe.capacity_factor,
            group_size=shape.moe.group_size,
            imbalance=shape.moe.imbalance or 1.0,
            route_groups=shape.moe.route_groups or 1,
            route_groups_kept=shape.moe.route_groups_kept or shape.moe.route_groups or 1,
        )
    latent = None
    if shape.mla is not None:
        mla = shape.mla
        assert mla.kv_rank
        assert mla.rope_head_dim
        assert mla.nope_head_dim
        assert mla.value_head_dim
        latent = LatentAttention(mla.kv_rank, mla.q_rank, mla.rope_head_dim, mla.nope_head_dim, mla.value_head_dim)
    return Transformer(
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=choose("kv_heads", shape.kv_heads, shape.heads),
        head_dim=shape.head_dim or shape.hidden // shape.heads,
        ffn=shape.ffn or (moe.ffn if moe else 0),
        vocabulary=shape.vocabulary,
        gated=choose("gated", shape.gated, llama),
        tied_embeddings=choose("tied_embeddings", shape.tied_embeddings, not llama),
        norm=choose("norm", shape.norm, "rms" if llama else "layer"),
        learned_positions=positions,
        attention_bias=biases,
        output_bias=biases,
        mlp_bias=biases,
        moe=moe,
        latent=latent,
        family=family,
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """The global batch in sequences, and what of a batch in tokens fills no whole sequence."""

    sequences: int | None
    remainder_tokens: int


def resolve_batch(
    stated: WorkloadChoice | None, sequence_length: int | None, collect: Collector, derived: tuple[int, str] | None = None
) -> Batch:
    """The global batch in sequences; missing where it is not stated, or stated in tokens without a sequence length.

    `derived` is what a launch file amounts to that states the parts of the batch and not the whole, and how.
    """
    if derived is not None and (stated is None or stated.global_batch is None):
        collect.assume("workload.global_batch", "/workload/global_batch", f"{derived[0]} sequences", derived[1])
        return Batch(derived[0], 0)
    if stated is None or stated.global_batch is None:
        collect.lacks(
            "global_batch", "/workload/global_batch", "'workload.global_batch'", "the training recipe: 2048 sequences, say"
        )
        return Batch(None, 0)
    value = int(stated.global_batch.value)
    if stated.global_batch.dimension is Dimension.SEQUENCES:
        return Batch(value, 0)
    if sequence_length is None:
        return Batch(None, 0)
    return Batch(value // sequence_length or None, value % sequence_length)


def resolve_workload(
    stated: WorkloadChoice | None, batch: Batch, collect: Collector, dispatch: tuple[Dispatcher | None, bool | None], *,
    sequence_length: int | None,
) -> Workload | None:  # fmt: skip
    """The workload, or None with every gap noted. `dispatch`: what the settings say of the exchange between experts."""
    path = "/workload"
    stated = stated or WorkloadChoice()
    if sequence_length is None:
        collect.lacks("shapes", f"{path}/sequence_length", "'workload.sequence_length'", "the training recipe")
    precision = _precision(stated, collect)
    optimizer = _optimizer(stated, collect)
    if stated.attention is None:
        collect.lacks(
            "attention", f"{path}/attention", "'workload.attention': flash or unfused", "the framework's attention backend"
        )
    packing = stated.packing
    causal = packing.causal if packing is not None else None
    if causal is None:
        collect.assume("workload.packing.causal", f"{path}/packing/causal", "true", "decoder-only training")
    if stated.dropout is None:
        collect.assume("workload.dropout", f"{path}/dropout", "0", "documented default")
    said: tuple[tuple[str, str | bool | None], ...] = (
        ("dispatcher", stated.dispatcher), ("dispatch_overlap", stated.dispatch_overlap)
    )  # fmt: skip
    for (name, own), switched in zip(said, dispatch, strict=True):
        if own is not None and switched is not None and own != switched:
            detail = f"'workload.{name}' is {str(own).lower()}, and 'framework.settings' say {str(switched).lower()}"
            collect.contradicts("dispatch", f"{path}/{name}", detail)
    if stated.dynamic_shapes is None:
        collect.assume("workload.dynamic_shapes", f"{path}/dynamic_shapes", "false", "documented default")
    if sequence_length is None or batch.sequences is None or precision is None or optimizer is None:
        return None
    return Workload(
        sequence_length=sequence_length,
        global_batch=batch.sequences,
        precision=precision,
        optimizer=optimizer,
        attention=Attention(stated.attention) if stated.attention else None,
        causal=True if causal is None else causal,
        dropout=stated.dropout or 0.0,
        dynamic_shapes=bool(stated.dynamic_shapes),
        dispatcher=Dispatcher(stated.dispatcher) if stated.dispatcher else dispatch[0],
        dispatch_overlap=stated.dispatch_overlap if stated.dispatch_overlap is not None else dispatch[1],
    )


def _precision(stated: WorkloadChoice, collect: Collector) -> Precision | None:
    roles = stated.precision
    how = "the framework's precision settings, by role"
    if roles is None:
        collect.lacks("precision", "/workload/precision", "'workload.precision'", how)
        return None
    gaps = [name for name in ("parameters", "gradients", "moments") if getattr(roles, name) is None]
    if roles.master is None and roles.parameters != "fp32":
        gaps.append("master")
    for name in gaps:
        collect.lacks("precision", f"/workload/precision/{name}", f"'workload.precision.{name}'", how)
    if gaps:
        return None
    assert roles.parameters
    assert roles.gradients
    assert roles.moments
    master = None if roles.master in (None, "none") else roles.master
    return Precision(roles.parameters, roles.gradients, master, roles.moments, roles.communication, roles.compute)


def _optimizer(stated: WorkloadChoice, collect: Collector) -> Optimizer | None:
    path = "/workload/optimizer"
    choice = stated.optimizer
    if choice is None or choice.name is None:
        collect.lacks("optimizer", path, "'workload.optimizer'", "the training recipe: adamw, say")
        return None
    name = choice.name.lower().replace("-", "_")
    moments = OPTIMIZER_MOMENTS.get(name)
    if moments is None:
        known = ", ".join(OPTIMIZER_MOMENTS)
        collect.lacks(
            "optimizer", path, f"the states of the optimizer '{choice.name}' are not known; known: {known}", "its paper"
        )
        return None
    return Optimizer(name, moments, bool(choice.fused))
