"""The keys of one Hugging Face config, read one by one: where each stands, what the class of the family fills in.

Vocabulary: as in `hf_config`. Every key that is read is noted, so that what is left over can be named. This module
knows types and ranges of keys, and which keys change no shape; it does not know what a family makes of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Final

from ..document import pointer_to, quoted
from ..errors import InputError, Place
from ..model import LatentAttention, MixtureOfExperts, Transformer

#: Whose defaults are meant where a config is silent.
SOURCE: Final = "transformers 4.57.1"

VISION: Final = frozenset(
    (
        "vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index", "image_token_id",
        "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "multimodal_projector_bias",
        "projector_hidden_act", "spatial_merge_size", "vision_feature_layer", "vision_feature_select_strategy",
        "media_placeholder_token_id", "image_seq_length", "ignore_index",
    )
)
MTP_REASON: Final = "multi-token prediction layers are neither counted nor priced"
VISION_REASON: Final = "what is not the language model is neither counted nor priced"
_WINDOW: Final = frozenset(("sliding_window", "layer_types", "sliding_window_pattern"))
WINDOW_REASON: Final = (
    "attention is counted over the whole sequence: too much of it where the sequence is longer than the window"
)
#: Reasons for which the counts or the times lack something of the model.
LEFT_OUT: Final = (MTP_REASON, VISION_REASON, WINDOW_REASON)
ASIDE: Final = MappingProxyType({
    key: reason
    for reason, keys in {
        "changes no shape and has no parameters": (
            "activation activation_function alibi attn_logit_softcapping clip_qkv emb_pdrop final_logit_softcapping "
            "hidden_act hidden_activation layer_norm_eps layer_norm_epsilon logit_scale max_window_layers n_group "
            "norm_topk_prob original_max_position_embeddings partial_rotary_factor query_pre_attn_scalar rms_norm_eps "
            "rope_interleave rope_local_base_freq rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct "
            "routed_scaling_factor scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func sliding_window "
            "swiglu_limit topk_group topk_method use_parallel_residual use_sliding_window layer_types "
            "sliding_window_pattern reorder_and_upcast_attn attn_config.alibi_bias_max attn_config.attn_impl "
            "attn_config.attn_uses_sequence_id attn_config.clip_qkv attn_config.prefix_lm attn_config.softmax_scale "
            "attn_config.model_type rotary_dim embedding_fraction attention_chunk_size attn_scale attn_temperature_tuning "
            "floor_scale no_rope_layers no_rope_layer_interval attention_multiplier embedding_multiplier logits_scaling "
            "residual_multiplier rope_ratio original_rope apply_residual_connection_post_layernorm masked_softmax_fusion "
            "offset_alibi skip_bias_add skip_bias_add_qkv slow_but_exact attention_softmax_in_fp32 bias_dropout_fusion "
            "scale_attention_softmax_in_fp32 apply_query_key_layer_scaling fp32_residual_connection interleaved_qkv "
            "layernorm_epsilon norm_epsilon norm_eps use_dynamic_ntk use_logn_attn use_flash_attn softmax_in_fp32 scale_attn "
            "use_bidirectional_attention use_cache_kernel use_cache_quantization attn_config.rope_theta "
            "ffn_config.ffn_act_fn ffn_config.model_type ffn_config.moe_normalize_expert_weights"
        ),
        "a checkpoint's starting values, which change no shape": (
            "initializer_factor initializer_range init_device init_config init_std initial_context_length"
        ),
        "dropout is part of the workload": (
            "attention_dropout attention_probs_dropout_prob attn_pdrop embd_pdrop hidden_dropout hidden_dropout_prob "
            "resid_pdrop classifier_dropout "
            "attn_config.attn_pdrop activation_dropout dropout layerdrop residual_dropout embedding_dropout attn_dropout_prob "
            "emb_dropout_prob"
        ),
        "precision by role is part of the workload": "dtype torch_dtype",
        "a term of the loss or of its reporting, which is not priced": (
            "aux_loss_alpha output_router_logits router_aux_loss_coef router_jitter_noise seq_aux input_jitter_noise "
            "z_loss_weight ffn_config.moe_jitter_eps ffn_config.moe_loss_weight ffn_config.uniform_expert_assignment"
        ),
        "how a checkpoint is stored, not how it is trained": (
            "quantization_config pretraining_tp ep_size quantization_bit tie_encoder_decoder"
        ),
        "names code, tokens, generation or a tool's settings, and no shape": (
            "_attn_implementation _name_or_path architectures auto_map bos_token_id cache_implementation "
            "eos_token_id pad_token_id decoder_start_token_id name tokenizer_name transformers_version use_cache "
            "verbose id2label label2id task_specific_params summary_activation summary_first_dropout "
            "summary_proj_to_labels summary_type summary_use_proj torchscript is_encoder_decoder "
            "gradient_checkpointing prefill_chunk_size context_window_size sliding_window_size n_ctx use_bfloat16 "
            "_attn_implementation_autoset _commit_hash _flash_attn_2_enabled add_cross_attention attn_implementation "
            "bad_words_ids begin_suppress_tokens bf16 chunk_size_feed_forward cross_attention_hidden_size diversity_penalty "
            "do_sample early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task "
            "for_llm_compressor forced_bos_token_id forced_eos_token_id fp16 fp32 inference_runner is_decoder length_penalty "
            "max_batch_size max_length min_length model_max_length no_repeat_ngram_size num_beam_groups num_beams "
            "num_return_sequences onnx_safe output_attentions output_hidden_states output_scores pad_key_length "
            "pre_allocate_kv_cache prefix problem_type pruned_heads remove_invalid_values repetition_penalty "
            "return_dict return_dict_in_generate "
            "sep_token_id suppress_tokens temperature tf_legacy_loss tokenizer_class top_k top_p typical_p unk_token_id "
            "unsloth_fixed unsloth_version use_cache_kernel validate_runner_input"
        ),
        MTP_REASON: (
            "num_nextn_predict_layers use_mtp num_mtp_modules mtp_transformer_layers"
        ),
    }.items()
    for key in keys.split()
})  # fmt: skip



class Config:
    """One mapping of keys, read key by key, with a note of each."""

    def __init__(
        self, data: Mapping[str, object], place: Callable[[str], Place], base: str, family: str, owner: str
    ) -> None:
        self.data = data
        self.place = place
        self.base = base
        self.family = family
        self.owner = owner
        self.origins: dict[str, str] = {}
        self.assumed: dict[str, tuple[object, str]] = {}
        self.missing: list[str] = []
        self.used = {"model_type"}

    def pointer(self, key: str) -> str:
        """Where a key of this mapping stands; a dot leads into a mapping inside it."""
        return self.base + pointer_to(*key.split("."))

    def value(self, *keys: str) -> tuple[str, object] | None:
        """The first stated of `keys` and its value; two that are stated must agree."""
        stated: list[tuple[str, object]] = []
        for key in keys:
            outer, _, inner = key.partition(".")
            scope: object = self.data
            if inner:
                scope = self.data.get(outer)
                if scope is not None and not isinstance(scope, Mapping):
                    raise self.wrong(outer, scope, "a mapping")
            if isinstance(scope, Mapping) and (inner or outer) in scope:
                stated.append((key, scope[inner or outer]))
                self.used.add(key)
        for key, value in stated[1:]:
            if value != stated[0][1]:
                raise InputError(
                    f"'{key}' is {shown(value)} and '{stated[0][0]}', which means the same, {shown(stated[0][1])}.",
                    place=self.place(self.pointer(key)), code="hf_config.conflict", remedy="Keep one of the two.",
                )  # fmt: skip
        return stated[0] if stated else None

    def wrong(self, key: str, value: object, wanted: str) -> InputError:
        """The error for a value of a wrong type."""
        return InputError(
            f"'{key}' is {shown(value)}; it must be {wanted}.",
            place=self.place(self.pointer(key)), code="hf_config.type",
            remedy=f"Write {wanted}, as transformers saves it for {quoted(self.family)}.",
        )  # fmt: skip

    def unsupported(self, key: str, value: object, why: str, would_do: str) -> InputError:
        """The error for a value that means a shape which is not modelled."""
        return InputError(
            f"'{key}' is {shown(value)}: {why}.", place=self.place(self.pointer(key)),
            code="hf_config.unsupported", remedy=would_do,
        )  # fmt: skip

    def assume(self, field: str, value: object, why: str) -> None:
        """Note what the config leaves to the class of its family."""
        self.assumed[field] = (value, f"{why} ({self.owner}, {SOURCE})")

    def count(
        self, field: str, *keys: str, silent: tuple[int, str] | None = None, null: tuple[int, str] | None = None
    ) -> int:
        """A whole number; `silent` stands in where no key is stated, `silent` or `null` where it is null."""
        found = self.value(*keys)
        if found is None or found[1] is None:
            stand_in = silent if found is None else silent or null
            if stand_in is not None:
                self.assume(field, *stand_in)
                return stand_in[0]
            if found is None:
                self.missing.append(keys[0])
                return 1  # never seen: `refuse_missing` names the key before the model is used
            raise self.wrong(*found, "a whole number")
        key, value = found
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, value, "a whole number")
        self.origins[field] = self.pointer(key)
        return value

    def flag(self, field: str, key: str, silent: bool | None = None) -> bool:
        """A truth value; `silent` is the default of the class, None where the config must say it.

        A key that decides more than one field is noted under its own name.
        """
        found = self.value(key)
        if found is None and silent is not None:
            self.assume(field, silent, f"the default of '{key}'")
            return silent
        if found is None:
            self.missing.append(key)
            return False
        if not isinstance(found[1], bool):
            raise self.wrong(*found, "true or false")
        self.origins[field] = self.pointer(key)
        return found[1]

    def divided(self, hidden: int, heads: int, *keys: str) -> int:
        """The width of a head: `keys` where the family has such a key and it is stated, else `hidden` / `heads`."""
        found = self.value(*keys)
        if found is not None and found[1] is not None:
            return self.count("head_dim", *keys)
        if heads > 0 and hidden % heads and not self.missing:
            at, of = self.origins["heads"], self.origins["hidden"]
            raise InputError(
                f"'{last_token(at)}' is {heads}, which does not divide '{last_token(of)}' {hidden}"
                f"{', and no ' + repr(keys[0]) + ' is stated' if keys else ''}.",
                place=self.place(at), code="hf_config.value",
                remedy=f"Choose a number of heads that divides {hidden}{f', or state {keys[0]!r}' if keys else ''}.",
            )  # fmt: skip
        width = max(1, hidden // heads) if heads > 0 else 1
        if keys:
            self.assume("head_dim", width, "hidden size / attention heads where no 'head_dim' is stated")
        elif "hidden" in self.origins:
            self.origins["head_dim"] = self.origins["hidden"]
        return width

    def word(self, key: str, allowed: tuple[str, ...], silent: str) -> str:
        """One of the words `allowed`; `silent`, noted as assumed, where the key is absent or null."""
        found = self.value(key)
        if found is None or found[1] is None:
            self.assume(key, silent, f"the default of '{key}'")
            return silent
        if not isinstance(found[1], str):
            raise self.wrong(*found, "one of " + ", ".join(allowed))
        if found[1] not in allowed:
            known = "Known are " + ", ".join(allowed) + "."
            raise self.unsupported(key, found[1], "its shapes are not modelled", known)
        return found[1]

    def context(self) -> int | None:
        """The longest sequence that the config speaks of; None where it is silent."""
        own = {
            "gpt2": ("n_positions", "max_position_embeddings"), "gptj": ("n_positions", "max_position_embeddings"),
            "gpt_bigcode": ("n_positions", "max_position_embeddings"), "mpt": ("max_seq_len",), "dbrx": ("max_seq_len",),
            "chatglm": ("seq_length",), "qwen": ("seq_length", "max_position_embeddings"),
        }  # fmt: skip
        found = self.value(*own.get(self.family, ("max_position_embeddings",)))
        if found is None or found[1] is None:
            return None
        key, value = found
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, value, "a whole number")
        if not 0 < value < 2**31:
            raise InputError(
                f"'{key}' is {shown(value)}; a context length lies between 1 and {2**31 - 1}.",
                place=self.place(self.pointer(key)), code="hf_config.value", remedy="State the length in tokens.",
            )  # fmt: skip
        return value

    def follow(self, first: str, *others: str) -> None:
        """One key states several fields: the others have the origin, or the assumption, of `first`."""
        for other in others:
            self.assumed.pop(other, None)
            self.origins.pop(other, None)
            if first in self.assumed:
                self.assumed[other] = self.assumed[first]
            elif first in self.origins:
                self.origins[other] = self.origins[first]

    def settle(self, value: object, *names: str) -> None:
        """Put the value itself beside assumptions that were noted for the key it follows from."""
        for name in names:
            if name in self.assumed:
                self.assumed[name] = (value, self.assumed[name][1])

    def refuse_missing(self) -> None:
        """The error for all keys that the family needs and the config does not have."""
        if self.missing:
            names = ", ".join(f"'{key}'" for key in dict.fromkeys(self.missing))
            raise InputError(
                f"The config does not state {names}, which a {quoted(self.family)} model needs.",
                place=self.place(self.pointer(self.missing[0])), code="hf_config.missing_key",
                remedy="Add it; defaults of sizes differ between releases of transformers, so none is filled in.",
            )  # fmt: skip

    def all_origins(self, model: Transformer) -> dict[str, str]:
        """The origin of every field that is not assumed: what no key states, the family fixes."""
        names = [field for field in _names("", model) if field not in self.assumed]
        return {name: self.origins.get(name, "/model_type") for name in names}

    def windowed(self, key: str) -> bool:
        """Whether a key speaks of attention to a window that is in use."""
        value = self.data.get(key)
        if key == "layer_types":
            return isinstance(value, list) and "sliding_attention" in value
        return value not in (None, False) and self.data.get("use_sliding_window") is not False

    def rest(self) -> tuple[list[str], dict[str, str]]:
        """The keys that nothing was read from: those not understood, and those that change no shape."""
        unread: list[str] = []
        aside: dict[str, str] = {}
        outer = {key.partition(".")[0] for key in self.used}
        for key, value in self.data.items():
            inner = value if key in outer and key not in self.used and isinstance(value, Mapping) else {}
            for name in [f"{key}.{part}" for part in inner] if inner else [key]:
                if name in self.used or (not inner and key in outer):
                    continue
                if name in _WINDOW and self.windowed(name):
                    aside[name] = WINDOW_REASON
                elif name in ASIDE:
                    aside[name] = ASIDE[name]
                elif name in VISION:
                    aside[name] = VISION_REASON
                else:
                    unread.append(name)
        return unread, aside


def _names(prefix: str, part: Transformer | MixtureOfExperts | LatentAttention) -> Iterator[str]:
    """The fields of a model, those inside a part with the part's name before them."""
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name in ("family", "name", "capacity_factor", "group_size"):
            continue
        if isinstance(value, MixtureOfExperts | LatentAttention):
            yield from _names(f"{field.name}.", value)
        elif field.name not in ("moe", "latent"):
            yield prefix + field.name


def last_token(pointer: str) -> str:
    """The key that a pointer ends in."""
    return pointer.rpartition("/")[2]


def shown(value: object) -> str:
    """A value of a config as a message shows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else str(value)
