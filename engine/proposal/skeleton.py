"""The text that a proposal starts from: what is known filled in with where it comes from, the rest commented out.

What is commented out is a valid line once its `# ` is gone; what to put there is said beside it. Nothing is answered for
the proposer: `none` and `all` are answers, so these are suggestions too. A skeleton chooses one thing, the reference plan,
because it follows from devices and batch; it prices nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from ..document import parse_document
from ..document.source import read_file
from ..errors import FileReferenceError, Place
from ..frozen import dataclass
from ..hardware import Library, NodeSheet
from ..importers import hf_config
from ..model import LatentAttention, MixtureOfExperts, Transformer
from ..plan import Mesh
from ..quantity import Dimension, UnitError, parse
from .case import Case
from .load import parse_proposal
from .references import read_reference, repository_root
from .resolve import resolve

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_WORDS = frozenset({"true", "false", "null"})


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's configuration: `reference` is its path from the proposal's folder, None where that is not allowed."""

    transformer: Transformer
    name: str
    sha256: str
    reference: str | None
    context_length: int | None


@dataclass(frozen=True, slots=True)
class Given:
    """What is known at the start. `global_batch` is in the form of a proposal: `2048 sequences`."""

    model: ModelFile | None = None
    node: NodeSheet | None = None
    nodes: int | None = None
    global_batch: str | None = None
    sequence_length: int | None = None

    @property
    def devices(self) -> int | None:
        """Devices in all."""
        return self.node.devices * self.nodes if self.node and self.nodes else None

    @property
    def sequences(self) -> int | None:
        """The global batch in sequences, where it is whole."""
        if self.global_batch is None:
            return None
        if not self.global_batch.endswith(("token", "tokens")):
            return int(parse(self.global_batch, Dimension.SEQUENCES))
        tokens = int(parse(self.global_batch, Dimension.TOKENS))
        return tokens // self.sequence_length if self.sequence_length and tokens % self.sequence_length == 0 else None


@dataclass(frozen=True, slots=True)
class Draft:
    """A skeleton's text, the case that it makes, and what of a model's file a description by shapes could not say."""

    text: str
    case: Case
    left_out: tuple[str, ...]


def batch_text(raw: str) -> str:
    """A batch as a proposal writes it; a bare whole number counts sequences. Raises UnitError, also for nothing at all."""
    text = raw.strip()
    if re.fullmatch(r"[0-9]+", text):
        text = f"{int(text)} sequence{'s' if int(text) != 1 else ''}"
    dimension = Dimension.TOKENS if text.endswith(("token", "tokens")) else Dimension.SEQUENCES
    if parse(text, dimension) < 1:
        raise UnitError(f"'{raw}' is an empty batch; write 2048 sequences or 4194304 tokens")
    return text


def read_model(path: str | Path, proposal: Path) -> ModelFile:
    """The `config.json` at `path`, and how a proposal at `proposal` refers to it. InputError where it is none."""
    raw = read_file(path, str(path))
    document = parse_document(raw, str(path))
    data = document.data
    assert isinstance(data, dict)  # a document is a mapping: the reader refuses all else
    found = hf_config.read(data, document.place)
    folder = os.path.realpath(proposal.absolute().parent)
    reference: str | None = os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")
    try:
        read_reference(str(reference), proposal=proposal, root=repository_root(proposal), place=Place())
    except FileReferenceError:
        reference = None
    return ModelFile(
        found.transformer, Path(path).name, hashlib.sha256(raw).hexdigest(), reference, found.context_length
    )


def draft(given: Given, proposal: Path, library: Library) -> Draft:
    """The skeleton for a proposal that will stand at `proposal`, read back as a review would read it."""
    text = "\n".join(_lines(given, ())) + "\n"
    case = resolve(parse_proposal(text.encode(), str(proposal), proposal), library)
    model = given.model
    if model is None or model.reference is not None or case.model is None:
        return Draft(text, case, ())
    left_out = tuple(_differences(model.transformer, case.model))
    return Draft("\n".join(_lines(given, left_out)) + "\n", case, left_out)


def reference_plan(
    devices: int, sequences: int | None = None, model: Transformer | None = None, island: int = 1
) -> tuple[Mesh, int] | None:
    """The simplest degrees over all devices that divide what they must: (mesh, pipeline stages), or None.

    Data parallel where the batch allows it, else with the smallest tensor degree inside an island of fast links, else
    with the fewest stages besides.
    """
    layers = model.layers if model else 1
    for pipeline in (p for p in _divisors(devices) if layers % p == 0):
        for tensor in _divisors(devices // pipeline):
            data = devices // pipeline // tensor
            if tensor > island or (tensor > 1 and not _tensor_divides(model, tensor)):
                continue
            if sequences is None or sequences % data == 0:
                return Mesh(data=data, tensor=tensor), pipeline
    return None


def _tensor_divides(model: Transformer | None, tensor: int) -> bool:
    if model is None:
        return False
    widths = [model.heads, model.kv_heads, model.ffn, *([model.moe.ffn] if model.moe else [])]
    return all(width % tensor == 0 for width in widths)


def _divisors(number: int) -> list[int]:
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(given: Given, left_out: tuple[str, ...]) -> Iterator[str]:
    yield "# A proposal for planproof. A line that is commented out is not stated yet: put your answer, and remove its '# '."
    yield "# 'planproof review' on this file says what is missing and what follows; 'planproof schema' lists every key."
    yield "planproof: 1"
    yield ""
    yield from _heading()
    yield ""
    yield from _model(given, left_out)
    yield ""
    yield from _workload(given)
    yield ""
    yield from _cluster(given)
    yield ""
    yield "# Measured stages as a CSV file, {file: profile.csv, date: 2026-11-02}, or none: then times are estimates."
    yield "# profile: none"
    yield "# Limits on the space of plans, {allow: [data, tensor], zero: [0, 1]} for example, or all."
    yield "# layouts: all"
    yield ""
    yield from _plans(given)
    yield ""
    yield "# What planning costs before it pays; without it nobody can say whether it pays over the run."
    yield "# planning_cost: {profiling: 16 device-hours}"


def _heading() -> Iterator[str]:
    yield "proposal:"
    yield "  # title: What is trained, on what"
    yield "  # What the best plan is best at: step_time, tokens_per_second, time_to_result or cost. Ask whoever wants the run."
    yield "  # objective: step_time"
    yield "  # How long the run will be, {tokens: 15.6 Ttokens} or {steps: 20000}: from the training recipe."
    yield "  # run_length: {tokens: 1 Ttokens}"
    yield "  # One model on more devices (fixed_model), or a model that grows with them (weak_scaling)."
    yield "  # scaling: fixed_model"
    yield "  # What will run the plan; rules of a framework hold for its versions."
    yield "  # framework: {name: megatron-lm, version: core_r0.14}"
    yield "  # The review reads and computes; it runs, installs and changes nothing."
    yield "  authority: paper_only"


def _model(given: Given, left_out: tuple[str, ...]) -> Iterator[str]:
    yield "model:"
    model = given.model
    if model is None:
        yield "  # The shapes of the model; or, instead, its own file: config: {file: config.json, kind: hf-config}."
        yield "  # transformer: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256}"
        yield "  # Of another family: graph: {family: wide_resnet, layers: 50, width_factor: 2, image_size: 224} (or"
        yield "  # encoder_decoder, vision_decoder); of none, graph: with its operators. See 'model.graph' in docs/proposal.md."
        return
    if model.reference is not None:
        yield f"  # The model's own file, sha256 {model.sha256[:16]}...; it is read again at every review."
        yield f"  config: {_flow({'file': model.reference, 'kind': 'hf-config'})}"
        return
    yield f"  # Copied from {_comment(model.name)} (hf-config, sha256 {model.sha256}),"
    yield "  # which a proposal here cannot refer to: only files of its own repository can be."
    if left_out:
        yield f"  # Shapes cannot say, and so do not count: {', '.join(left_out)}. Put the file into the repository to have them."
    yield f"  transformer: {_flow(_shapes(model.transformer))}"


def _workload(given: Given) -> Iterator[str]:
    yield "# Training semantics: no plan may change them."
    yield "workload:"
    most = given.model.context_length if given.model else None
    if given.sequence_length is not None:
        yield f"  sequence_length: {given.sequence_length}  # as given when this file was made"
    else:
        limit = f"; the model's file allows up to {most}" if most else ""
        yield f"  # Tokens a sequence, from the training recipe{limit}."
        yield f"  # sequence_length: {min(most, 4096) if most else 4096}"
    if given.global_batch is not None:
        yield f"  global_batch: {given.global_batch}  # as given when this file was made"
    else:
        yield "  # Of one optimizer step, in sequences or in tokens (4194304 tokens), from the training recipe."
        yield "  # global_batch: 2048 sequences"
    yield "  # Bytes a parameter follow from the dtype of each role; master: none says that there is no high-precision copy."
    yield "  # precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}"
    yield "  # optimizer: adamw"
    yield "  # The attention kernel, flash or unfused; unstated, memory is predicted both ways and the larger decides."
    yield "  # attention: flash"
    yield "  # packing: {causal: true}"
    yield "  # dropout: 0.0"
    yield "  # dynamic_shapes: false"


def _cluster(given: Given) -> Iterator[str]:
    yield "cluster:"
    node = given.node
    known = {"count": given.nodes, "type": node.name if node else None}
    stated = {key: value for key, value in known.items() if value is not None}
    if len(stated) == len(known) and node is not None:
        yield f"  # {node.devices} x {node.device.name} a node; what is inside a node is in its data sheet, {node.origin.file}."
        yield f"  nodes: {_flow(stated)}"
    elif stated:
        lacking = "count" if "count" not in stated else "type"
        yield f"  # The {lacking} is not stated yet."
        yield f"  nodes: {_flow(stated)}"
    else:
        yield "  # How many nodes of which data sheet; or, without one, {count: 4, device: H100, devices: 8} and intra_node."
        yield "  # nodes: {count: 4, type: dgx_h100}"
    if given.nodes == 1:
        yield "  # One node: no fabric to state."
    else:
        lists = ""
        if node is not None and node.nics is not None:
            lists = f"; a {node.name} has {node.nics.count} of {_rate(node.nics.bandwidth.value)}, says its data sheet"
        yield f"  # The network between nodes: no node's data sheet knows it. Cards of a node and the rate of one{lists}."
        yield f"  # fabric: {_fabric(node)}"
    yield "  # Who else uses the fabric, {shared_with: other jobs, share: 5 %, changing: true} for example, or none."
    yield "  # contention: none"


def _fabric(node: NodeSheet | None) -> str:
    count, rate = 8, "400 Gbit/s"
    if node is not None and node.nics is not None:
        count, rate = node.nics.count, _rate(node.nics.bandwidth.value)
    return f"{{nics: {{count: {count}, bandwidth: {rate}}}, oversubscription: 1}}"


def _rate(bytes_per_s: float) -> str:
    """A network card's rate as its maker writes it, in bits."""
    return f"{bytes_per_s * 8 / 10**9:g} Gbit/s"


def _plans(given: Given) -> Iterator[str]:
    yield "# The simple plan that everything is compared with (role reference), and the one that is to run (role submitted)."
    yield "plans:"
    rest = "microbatch: 1, zero: {zero}, sequence_parallel: false, recompute: full"
    devices, model = given.devices, given.model.transformer if given.model else None
    if devices is None:
        yield f"  # - {{name: reference, role: reference, uniform: {{data: 32}}, {rest.format(zero=3)}}}"
        return
    island = given.node.links[0].island if given.node and given.node.links else 1
    found = reference_plan(devices, given.sequences, model, island)
    if found is None:
        yield f"  # No data x tensor x pipeline over {devices} devices divides {given.global_batch} and this model:"
        yield f"  # use fewer devices, or a batch that is a multiple of {devices}."
        yield f"  # - {{name: reference, role: reference, uniform: {{data: {devices}}}, {rest.format(zero=3)}}}"
        return
    mesh, pipeline = found
    degrees = {"data": mesh.data, "tensor": mesh.tensor, "pipeline": pipeline}
    shown = _flow({axis: degree for axis, degree in degrees.items() if degree > 1} or {"data": 1})
    schedule = "schedule: 1f1b, " if pipeline > 1 else ""
    kept = "the smallest memory that needs no pipeline" if pipeline == 1 else "few stages, states sharded"
    yield f"  # Chosen here: the simplest degrees over {devices} devices that divide batch and model; {kept}."
    zero = 3 if pipeline == 1 else 1
    yield f"  - {{name: reference, role: reference, uniform: {shown}, {schedule}{rest.format(zero=zero)}}}"


def _shapes(model: Transformer) -> dict[str, object]:
    """The model as a description by shapes, with every word that the family would fill in stated."""
    found: dict[str, object] = {"family": "llama" if model.norm == "rms" else "gpt"}
    found |= {name: getattr(model, name) for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")}
    found |= {"vocabulary": model.vocabulary, "gated": model.gated, "tied_embeddings": model.tied_embeddings}
    found |= {"norm": "rms" if model.norm == "rms" else "layer", "positions": model.learned_positions}
    found["biases"] = model.attention_bias and model.output_bias and model.mlp_bias
    if model.moe is not None:
        moe = model.moe
        routed = {"experts": moe.experts, "top_k": moe.top_k, "ffn": moe.ffn, "every": moe.every}
        if moe.first_dense:
            routed["first_dense"] = moe.first_dense
        if moe.shared_experts:
            routed |= {"shared_experts": moe.shared_experts, "shared_ffn": moe.shared_ffn}
        found["moe"] = routed
    if model.latent is not None:
        names = ("kv_rank", "q_rank", "rope_head_dim", "nope_head_dim", "value_head_dim")
        values = {name: getattr(model.latent, name) for name in names}
        found["mla"] = {name: value for name, value in values.items() if value is not None}
    return found


def _differences(wanted: Transformer | MixtureOfExperts | LatentAttention, got: object, prefix: str = "") -> Iterator[str]:
    """The fields in which two models differ, as `name value`; names and families of a model are no shapes."""
    for field in fields(wanted):
        mine, theirs = getattr(wanted, field.name), getattr(got, field.name)
        if mine == theirs or (not prefix and field.name in ("name", "family")):
            continue
        if isinstance(mine, MixtureOfExperts | LatentAttention) and type(mine) is type(theirs):
            yield from _differences(mine, theirs, f"{field.name}.")
        else:
            yield f"{prefix}{field.name} {_scalar(mine)}"


def _flow(values: Mapping[str, object]) -> str:
    """A mapping on one line."""
    parts = (f"{key}: {_flow(value) if isinstance(value, dict) else _scalar(value)}" for key, value in values.items())
    return "{" + ", ".join(parts) + "}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not isinstance(value, str) or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS):
        return text
    return "'" + text.replace("'", "''") + "'"


def _comment(text: str) -> str:
    """A text that stays on its line."""
    return "".join(c if c.isprintable() else "?" for c in text)


__all__ = ["Draft", "Given", "ModelFile", "batch_text", "draft", "read_model", "reference_plan"]
