"""Hugging Face `config.json` to a transformer, with the origin of every field.

Vocabulary: a *family* is a `model_type`; a value is *stated* (the config has the key; its pointer is the origin),
*fixed* (the family leaves no choice; the origin is `/model_type`) or *assumed* (the config is silent and the class of
the family in transformers fills it in: kept with the reason). A size that is none of these is missing, and that is an
error: no default of ours stands in. The keys are read in `hf_config_keys`, family by family in `hf_config_families`.
This module knows nothing of files, plans or training; where a value stands it asks `place`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ..document import pointer_to, quoted
from ..errors import InputError, Place
from ..frozen import dataclass
from ..model import Problem, Transformer, problems
from .hf_config_families import FAMILIES as FIRST
from .hf_config_keys import ASIDE, LEFT_OUT, VISION, VISION_REASON, WINDOW_REASON, Config, last_token, shown
from .hf_config_later import ALSO, INSIDE, LATER, UNMODELLED

#: `model_type` -> the class whose defaults count, and how its keys are read.
FAMILIES: Final = MappingProxyType({**FIRST, **LATER})

_OTHER_HEADS: Final = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "DoubleHeadsModel",
)  # fmt: skip
_ENCODERS: Final = (
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "esm", "longformer", "modernbert",
    "mpnet", "roberta", "vit", "xlm-roberta",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HFModel:
    """What a config says of a model, and on whose word: everything that was neither read nor set aside is `unread`."""

    transformer: Transformer
    #: Field of the transformer (`moe.experts` for one inside) -> JSON pointer of what states it.
    origins: Mapping[str, str]
    #: Field -> value and why: what the config left to the class of its family.
    assumed: Mapping[str, tuple[object, str]]
    unread: tuple[str, ...]
    #: Key -> why it changes no shape, or what is left out of the counts because of it.
    set_aside: Mapping[str, str]
    context_length: int | None
    #: What the counts or the times lack of the model, with the keys that say that it is there.
    left_out: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Tokens that attention reaches back in some layers, where that is in use: longer sequences alone lack it.
    window: int | None = None


def recognises(data: Mapping[str, object]) -> bool:
    """Whether a document looks like a config of transformers or of an adapter, readable or not."""
    if "peft_type" in data:
        return True
    signs = ("architectures", "transformers_version", "vocab_size", "hidden_size", "num_hidden_layers", "text_config")
    return isinstance(data.get("model_type"), str) and any(sign in data for sign in signs)


def read(data: Mapping[str, object], place: Callable[[str], Place]) -> HFModel:
    """The transformer that a parsed `config.json` describes; an `InputError` where it does not describe one whole."""
    _refuse_others(data, place)
    family = data.get("model_type")
    if not isinstance(family, str):
        says = "has no 'model_type'" if "model_type" not in data else f"says 'model_type': {shown(family)}"
        raise InputError(
            f"The config {says}, so its keys have no meaning; known are {', '.join(FAMILIES)}.",
            place=place("/model_type"), code="hf_config.unknown_family",
            remedy="Use the config.json that is saved beside the model's weights.",
        )  # fmt: skip
    inner, base = data, ""
    if family in INSIDE:
        inner, base = _text_part(data, place)
        own = inner.get("model_type") if base else None
        family = ALSO.get(own, own) if isinstance(own, str) else INSIDE[family]
    if family not in FAMILIES:
        raise _unknown(family, inner, place, base)
    name, build = FAMILIES[family]
    config = Config(inner, place, base, family, name)
    model = build(config)
    context = config.context()
    config.refuse_missing()
    found = problems(model)
    if found:
        raise _unfit(found[0], config)
    unread, aside = config.rest()
    if base:
        for key in data:
            if key in VISION:
                aside[key] = VISION_REASON
            elif key == "tie_word_embeddings" and key in inner:
                aside[key] = "the language model has the key too, and that is the one that is read"
            elif key in ASIDE:
                aside[key] = ASIDE[key]
            elif key not in ("model_type", "text_config"):
                unread.append(key)
    there = {
        reason: tuple(key for key, why in aside.items() if why == reason and _stated(key, data, inner)) for reason in LEFT_OUT
    }
    return HFModel(
        left_out=tuple((reason, keys) for reason, keys in there.items() if keys),
        window=width if isinstance(width := inner.get("sliding_window"), int) and there[WINDOW_REASON] else None,
        transformer=model,
        origins=MappingProxyType(dict(sorted(config.all_origins(model).items()))),
        assumed=MappingProxyType(config.assumed),
        unread=tuple(unread),
        set_aside=MappingProxyType(aside),
        context_length=context,
    )


def _stated(key: str, *scopes: Mapping[str, object]) -> bool:
    """Whether a key says that something is there, and is not only the number of a token."""
    return not key.endswith(("_id", "_index")) and any(scope.get(key) not in (None, False, 0, "") for scope in scopes)


def _refuse_others(data: Mapping[str, object], place: Callable[[str], Place]) -> None:
    """The errors for configs of something else than a decoder-only language model."""
    if "peft_type" in data:
        named = data.get("base_model_name_or_path")
        of = f" of {quoted(named)}" if isinstance(named, str) else ""
        raise InputError(
            f"This is the config of an adapter{of} (peft_type {shown(data['peft_type'])}), not of a model.",
            place=place("/peft_type"), code="hf_config.adapter",
            remedy="Give the config.json of the base model; only training of all parameters is modelled.",
        )  # fmt: skip
    family = data.get("model_type")
    if family in _ENCODERS or data.get("is_encoder_decoder") is True:
        key = "model_type" if family in _ENCODERS else "is_encoder_decoder"
        raise InputError(
            f"'{key}' is {shown(data[key])}: this model has an encoder; only decoder-only language models are read.",
            place=place(pointer_to(key)), code="hf_config.not_a_decoder", remedy=f"Known are {', '.join(FAMILIES)}.",
        )  # fmt: skip
    names = data.get("architectures")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str) and name.endswith(_OTHER_HEADS):
            raise InputError(
                f"'architectures' names {quoted(name)}, which has another head than a language model's.",
                place=place(pointer_to("architectures", index)), code="hf_config.not_a_decoder",
                remedy="Give the config of the causal language model.",
            )  # fmt: skip


def _unknown(family: str, inner: Mapping[str, object], place: Callable[[str], Place], base: str) -> InputError:
    """The error for a family that is not read: why, what the config says all the same, and how to say it in a proposal."""
    why = f", and {UNMODELLED[family]}" if family in UNMODELLED else ""
    near = difflib.get_close_matches(family, FAMILIES, n=1, cutoff=0.75)
    known = f"did you mean '{near[0]}'? Known" if near and not why else "known"
    sizes = {
        mine: next((inner[key] for key in keys if isinstance(inner.get(key), int)), None) for mine, keys in _USUAL.items()
    }
    found = ", ".join(f"{mine}: {value}" for mine, value in sizes.items() if value is not None)
    open_ = ", ".join(mine for mine, value in sizes.items() if value is None)
    also = f"; it is silent on {open_}" if found and open_ else ""
    return InputError(
        f"'model_type' is {quoted(family)}, which is not a family read here{why}; {known} are {', '.join(FAMILIES)}.",
        place=place(f"{base}/model_type"), code="hf_config.unknown_family",
        remedy="State the sizes under 'model.transformer' of the proposal, where they describe the model"
        + (f"; by its usual keys this config says {{{found}}}{also}" if found else "")
        + ". Check biases, norms, experts and whether the head is tied, which no usual key tells.",
    )  # fmt: skip


#: Keys of a transformer in a proposal -> those that most configs use.
_USUAL: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
})  # fmt: skip


def _text_part(
    data: Mapping[str, object], place: Callable[[str], Place]
) -> tuple[Mapping[str, object], str]:
    """The language model inside a config with vision; one without vision, or an older one, has its keys outside."""
    if "text_config" not in data:
        return data, ""
    inner = data["text_config"]
    if not isinstance(inner, Mapping):
        raise InputError(
            f"'text_config' is {shown(inner)}; it must be a mapping.",
            place=place("/text_config"), code="hf_config.type", remedy="Give the config.json as it was saved.",
        )  # fmt: skip
    return inner, "/text_config"


def _unfit(problem: Problem, c: Config) -> InputError:
    """A shape that cannot be, in the user's own keys."""
    numbers = dict(problem.detail)
    key = _key(c, problem.field)
    prefix = problem.field.rpartition(".")[0]

    def named(name: str) -> str:
        full = f"{prefix}.{name}" if prefix and name not in ("layers", "heads") else name
        return f"'{_key(c, full)}' {shown(numbers[name])}"

    own = problem.field.rpartition(".")[2]
    others = ", ".join(named(name) for name in numbers if name not in (own, "value", "limit"))
    value = numbers.get("value", numbers.get(own))
    match problem.code:
        case "not_positive":
            text, would_do = "must be 1 or more", "State the model's own number."
        case "negative":
            text, would_do = "must be 0 or more", "State the model's own number."
        case "too_large":
            text, would_do = f"is beyond any model: the limit is {numbers['limit']}", "Check the number of digits."
        case "exceeds":
            text, would_do = f"cannot exceed {others}", "Lower the one or raise the other."
        case "indivisible":
            text, would_do = f"must divide {others}", "Choose a divisor."
        case "odd":
            text, would_do = "must be even, for rotary positions turn pairs", "Choose an even width."
        case "mismatch":
            text, would_do = f"must equal {others}", "State the same number in both."
        case _:
            text, would_do = f"leaves no layer with experts: {others}", "Lower it, or use a dense family."
    return InputError(
        f"'{key}' is {shown(value)}; it {text}.", place=c.place(c.origins.get(problem.field, c.base)),
        code="hf_config.value", remedy=would_do,
    )  # fmt: skip


def _key(c: Config, field: str) -> str:
    return last_token(c.origins[field]) if field in c.origins else field


