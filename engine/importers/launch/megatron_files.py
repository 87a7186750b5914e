"""Megatron's launch files: shell and batch scripts (Megatron-DeepSpeed's too), bare argument lists, and YAML argument lists.

A script is walked, never run; the training command is the one that is started with Megatron's arguments. The places of values
are where the script writes them: at the assignment of a variable, not at its use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ...errors import InputError, Place
from . import deepspeed
from .draft import PLAN, Draft
from .entries import Entries, Entry, Open
from .megatron import LISTS, MEGATRON, arguments_as_lists, read_arguments
from .megatron_keys import PATTERNS
from .parts import Key, Launch
from .presets import set_aside
from .settings import put_settings
from .shell_run import Started, Walk, walk
from .shell_text import Text, offset_of, plain, reason, shown, split
from .shell_words import ShellError
from .sources import SourceFile, not_this

KIND: Final = "megatron"
#: Arguments that a training command of Megatron is told by: two of them make one.
SIGNS: Final = (
    "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers", "--hidden-size", "--num-attention-heads",
    "--micro-batch-size", "--global-batch-size", "--seq-length", "--model-parallel-size", "--use-mcore-models",
)  # fmt: skip
#: What Megatron's own checks look up in the environment.
ENVIRONMENT: Final = frozenset(
    {"CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_ALGO", "NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN"}
)
#: Programs that train something else than a decoder-only language model.
_OTHER_MODELS: Final = re.compile(
    r"(?:train|finetune)_(?:bert|t5|ict|vision|realm|retro|vlm|mimo|diffusion|retriever)\w*(?:\.py)?$"
)
#: Programs that generate text or score it.
_GENERATES: Final = re.compile(r"(?:text_generation|generate(?:_\w+)?|evaluate|\w*inference\w*|\w*_server|serve)\.py$")
#: Launchers whose number of nodes is 1 by default.
_ONE_NODE: Final = re.compile(r"(?:^|/)torchrun$|^torch\.distributed\.(?:run|launch)$")
#: What stands in a written file for what the script does not decide: a name that templates have too.
_SLOT: Final = "$NOT_DECIDED"
_MARK: Final = re.compile(r"@(\d+)@")
_ARGUMENT: Final = re.compile(r"--?[A-Za-z][\w.-]*")


def recognises(file: SourceFile) -> bool:
    """Whether a script or document has Megatron's arguments."""
    text = file.source.text
    if file.form in ("shell", "text"):
        return sum(bool(re.search(re.escape(sign) + r"(?![\w-])", text)) for sign in SIGNS) >= 2
    if file.form == "yaml":
        arguments = file.top.get("MODEL_ARGS")
        if isinstance(arguments, dict):
            return True
        return sum(sign in file.top or (sign[2:] in file.top and "--" in text[:0]) for sign in SIGNS) >= 2
    return False


def read(file: SourceFile) -> Launch:
    """Read a script or a YAML list of arguments."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(
            file, KIND, kind_of(file), "Megatron's arguments, such as '--num-layers' and '--tensor-model-parallel-size'"
        )
    return _from_yaml(file) if file.form == "yaml" else _from_script(file)


def _from_yaml(file: SourceFile) -> Launch:
    """`MODEL_ARGS` of a functional test, or the arguments at the top."""
    d = Draft(file.start)
    inside = isinstance(file.top.get("MODEL_ARGS"), dict)
    found = file.entries("/MODEL_ARGS" if inside else "")
    entries = [Entry(_name(e.key), e.value, e.place) for e in found]
    written = {_name(e.key): e.key for e in found}
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    entries = _variables(entries)
    _refuse_inference(entries)
    e = Entries(entries, loose=True)
    read_arguments(e, d)
    _settings(d, entries, {one.key: one for one in file.entries("/ENV_VARS")} if inside else {})
    _frame(d, "megatron-lm")
    set_aside(e, KIND)
    e.set_aside({}, PATTERNS)
    keys = [Key(written.get(key.name, key.name), key.place, key.use, key.why) for key in e.uses()]
    if inside:
        others = Entries([entry for entry in file.entries() if not entry.key.startswith("MODEL_ARGS.")])
        others.set_aside({entry.key: "how the test is run and judged, not what is trained" for entry in others})
        keys += list(others.uses())
    parts = tuple(replace(part, key=written.get(part.key, part.key)) for part in d.parts.values())
    return Launch(
        KIND, file.name, file.sha256, "megatron-lm", parts, tuple(keys), tuple(d.gaps), tuple(d.notes), file.source.text
    )


def _variables(entries: Iterable[Entry]) -> list[Entry]:
    """Values that name a variable are open."""
    return [
        Entry(e.key, Open(f"'{e.value[:40]}' is filled in by whoever starts it"), e.place)
        if isinstance(e.value, str) and re.search(r"\$\{?\w", e.value) else e
        for e in entries
    ]  # fmt: skip


def _name(written: str) -> str:
    """An argument's name as Megatron stores it; of a dotted override its last part."""
    last = written.lstrip("-").replace("-", "_").lower().rpartition(".")[2]
    return "train_iters" if last == "max_steps" else last


def _from_script(file: SourceFile) -> Launch:
    text = file.source.text
    bare = file.form == "text" or not re.search(r"^(?!\s*(?:#|--|$))", text, re.MULTILINE)
    try:
        found = walk(("pretrain_gpt.py \\\n" if bare else "") + text, file.given)
    except ShellError as error:
        raise InputError(
            f"The script cannot be read as bash: {error.message}.", place=file.place(min(error.offset, len(text))),
            code="launch.shell", remedy="Check it with 'bash -n'; of shells only bash and sh are read.",
        ) from None  # fmt: skip
    shift = len("pretrain_gpt.py \\\n") if bare else 0

    def place(offset: int) -> Place:
        return file.place(max(0, min(offset - shift, len(text))))

    d = Draft(file.start)
    chosen = _training(file, found, place)
    other = next((word for word in chosen.words if _OTHER_MODELS.search(shown(word))), None)
    if other is not None:
        raise InputError(
            f"The script trains another model than a decoder-only language model ('{shown(other)[-60:]}').",
            place=place(offset_of(other) or 0), code="launch.not_a_decoder", remedy="Only decoder-only language models are read.",
        )  # fmt: skip
    entries, twice, extra = _arguments(chosen.words, place)
    generates = next((word for word in chosen.words if _GENERATES.search(shown(word))), None)
    if generates is not None:
        raise InputError(
            f"This command generates text ('{shown(generates)[-60:]}'), and trains nothing.",
            place=place(offset_of(generates) or 0), code="launch.inference",
            remedy="Give the training configuration; inference is not modelled.",
        )  # fmt: skip
    alone = [one for one in found.commands if one.words and shown(one.words[0]).startswith("--")]
    if alone and not chosen.gathered:
        first = shown(alone[0].words[0])[:60]
        why = "the command before it ended, at a line without '\\' or a comment, so it is no argument of it"
        d.note(f"'{first}' stands alone: {why}", place(alone[0].offset))
    for entry in twice:
        d.note(f"'{entry.key}' is given twice: the later one counts", entry.place)
    for note, offset in found.notes:
        d.note(note, place(offset))
    present = {entry.key for entry in entries}
    for option, name in (
        ("--nodes", "nnodes"),
        ("-N", "nnodes"),
        ("--gpus-per-node", "nproc_per_node"),
        ("--gres", "nproc_per_node"),
    ):
        value, offset = found.directives.get(option, ("", 0))
        number = re.search(r"(\d+)$", value)
        if number and name not in present:
            entries.append(Entry(name, number[1], place(offset)))
            present.add(name)
    d.place = place(chosen.offset)
    _refuse_inference(entries)
    e = Entries(entries, loose=True)
    if extra is not None:
        e.more = f"more arguments may be given: {_lined(reason(extra) or '', place)}"
        d.note(e.more, place(offset_of(extra) or 0))
    elif chosen.gathered:
        e.more = "the arguments were gathered from variables, and more may be given where they are used"
    d.source = MEGATRON.source
    if any(_ONE_NODE.search(shown(word)) for word in chosen.words):
        e.one_node = "torchrun starts one node where '--nnodes' is not stated; torch 2.8, torch/distributed/run.py"
    more: list[Key] = []
    config = e.peek("deepspeed_config")
    read_arguments(e, d)
    framework = "megatron-lm"
    if "deepspeed" in present or config is not None:
        framework = "megatron-deepspeed"
        d.source = "Megatron-DeepSpeed 4efb479d5, megatron/arguments.py"
        more = _engine(file, found, config, d, place)
    _frame(d, framework)
    looked_up = {}
    for name in sorted(found.scope.exported & ENVIRONMENT & found.scope.variables.keys()):
        scalar = found.scope.variables[name].scalar
        if (known := plain(scalar)) is not None:
            looked_up[name] = Entry(name, known, place(offset_of(scalar) or 0))
    _settings(d, entries, looked_up)
    set_aside(e, KIND)
    e.set_aside({}, PATTERNS)
    keys = [Key("--" + key.name.replace("_", "-"), key.place, key.use, key.why) for key in e.uses()] + more
    names = {entry.key: "--" + entry.key.replace("_", "-") for entry in entries}
    parts = tuple(replace(part, key=names.get(part.key, part.key)) for part in d.parts.values())
    return Launch(KIND, file.name, file.sha256, framework, parts, tuple(keys), tuple(d.gaps), tuple(d.notes), text)


def _training(file: SourceFile, found: Walk, place: object) -> Started:
    """The command with Megatron's arguments. Raises InputError where there is none, or several that differ."""
    assert callable(place)
    candidates = [one for one in found.commands if _signs(one.words) >= 2] or _unstarted(found)
    if not candidates:
        raise InputError(
            "No command of this script is started with Megatron's arguments: they may be put together in a file that it takes in "
            "or in a way that is not followed.",
            place=file.start, code="launch.no_command",
            remedy="Give the script that holds the arguments, or both; 'set' (or --set) gives variables that come from outside.",
        )  # fmt: skip
    distinct: dict[str, Started] = {}
    for one in candidates:
        distinct.setdefault(" ".join(map(shown, one.words)), one)
    several = list(distinct.values())
    if file.command is not None:
        if not 1 <= file.command <= len(several):
            raise InputError(
                f"Command {file.command} was asked for, and the script has {len(several)} training commands.",
                place=file.start, code="launch.command", remedy=f"Name one from 1 to {len(several)}.",
            )  # fmt: skip
        return several[file.command - 1]
    if len(several) > 1:
        lines = ", ".join(str(place(one.offset).line) for one in several[:6])
        raise InputError(
            f"The script has {len(several)} training commands that differ, at lines {lines}: one has to be named.",
            place=place(several[1].offset), code="launch.several_commands",
            remedy="Say which with --command N (in a proposal: 'command: N' under 'launch'), counted from 1 in this order.",
        )  # fmt: skip
    return several[0]


def _unstarted(found: Walk) -> list[Started]:
    """Arguments that a script only puts into variables, for another script to start something with."""
    words: list[Text] = []
    for value in found.scope.variables.values():
        texts = list(value.items.values()) if value.items is not None else split(value.text)
        if any(shown(text).startswith("--") for text in texts):
            words += texts
    if _signs(tuple(words)) < 2:
        return []
    found.notes.append(("nothing is started here: the arguments are those that the script puts into variables", 0))
    return [Started(tuple(words), offset_of(words[0]) or 0, gathered=True)]


def _refuse_inference(entries: list[Entry]) -> None:
    """The error for a configuration that generates text."""
    names = {entry.key: entry for entry in entries}
    found = next((names[name] for name in INFERENCE if name in names), None)
    if found is not None:
        raise InputError(
            f"This is a configuration for inference ('{found.key}'), not for training.", place=found.place,
            code="launch.inference", remedy="Give the training configuration; inference is not modelled.",
        )  # fmt: skip


def _settings(d: Draft, entries: Iterable[Entry], environment: Mapping[str, Entry]) -> None:
    """The framework's own options, for its rules: every argument that is decided, and what it looks up in the environment."""
    put_settings(d, [*arguments_as_lists(entries), *environment.values()], loose=True)


def _signs(words: tuple[Text, ...]) -> int:
    names = {shown(word).partition("=")[0] for word in words}
    return sum(sign in names for sign in SIGNS)


def _arguments(words: tuple[Text, ...], place: object) -> tuple[list[Entry], list[Entry], Text | None]:
    """Arguments with their values, of one that is given twice the last; those given twice; and a word that may add more."""
    assert callable(place)
    extra: Text | None = None
    found: dict[str, Entry] = {}
    twice: list[Entry] = []
    current: tuple[str, Text, list[Text]] | None = None

    def settle() -> None:
        if current is None:
            return
        name, word, values = current
        entry = _entry(name, word, values, place)
        if name in found:
            twice.append(entry)
        found[name] = entry

    for word in words:
        written = shown(word)
        match = _ARGUMENT.match(written)
        is_argument = written.startswith("--") and match is not None
        if is_argument and match is not None and (match.end() == len(written) or written[match.end()] == "="):
            settle()
            current = (_name(match[0]), word, [])
            if match.end() < len(written):
                from .shell_text import sliced

                current[2].append(sliced(word, match.end() + 1, None))
        elif current is not None:
            if reason(word) is not None and plain(word) is None and not written.startswith("-"):
                # The first word behind an argument is its value, if it takes one.
                taken = not current[2] and current[0] not in SWITCHES
                extra = extra if taken else word
            current[2].append(word)
    settle()
    return list(found.values()), twice, extra


def _entry(name: str, word: Text, values: list[Text], place: object) -> Entry:
    """An argument: true where it has no value, open where the script does not decide it."""
    assert callable(place)
    at = offset_of(values[0]) if values and offset_of(values[0]) is not None else offset_of(word)
    where = place(at if at is not None else 0)
    undecided = reason(word)
    if undecided is not None:
        return Entry(name, Open(_lined(undecided, place)), where)
    # A script's name or a redirection's target may follow a switch; a switch takes only what reads as a value of it.
    texts = [plain(value) for value in values]
    if not values:
        return Entry(name, True, where)
    if name in ("recompute_modules", "offload_modules", "rampup_batch_size", "data_path", "split") or (
        len(values) > 1 and None not in texts and name in LISTS
    ):
        return Entry(name, [text for text in texts if text is not None], where)
    if texts[0] is None and name in SWITCHES:
        return Entry(name, True, where)
    if texts[0] is None:
        return Entry(name, Open(_lined(reason(values[0]) or "it is not decided by the script", place)), where)
    if texts[0].endswith(".py") or texts[0] in ("2>&1", "|", "&"):
        return Entry(name, True, where)
    return Entry(name, texts[0], where)


#: Arguments that decide something and take no value: what follows one, `"$@"` say, is not its value.
SWITCHES: Final = frozenset({
    "bf16", "fp16", "swiglu", "squared_relu", "sequence_parallel", "use_distributed_optimizer", "group_query_attention",
    "use_flash_attn", "untie_embeddings_and_output_weights", "disable_bias_linear", "add_qkv_bias", "qk_layernorm",
    "multi_latent_attention", "moe_grouped_gemm", "recompute_activations", "use_mcore_models", "use_megatron_fsdp",
    "use_torch_fsdp2", "use_custom_fsdp", "deepspeed", "no_pipeline_parallel", "deepspeed_activation_checkpointing",
    "accumulate_allreduce_grads_in_fp32", "use_rotary_position_embeddings", "fp8_hybrid", "fp8_e4m3",
    "overlap_grad_reduce", "overlap_param_gather", "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
})  # fmt: skip
#: Arguments that only make sense where text is generated.
INFERENCE: Final = ("num_tokens_to_generate", "prompts", "prompt_file", "incoming_requests_per_sec", "out_seq_length", "genfile")


def _lined(why: str, place: object) -> str:
    """A reason with offsets turned into lines."""
    assert callable(place)
    return _MARK.sub(lambda match: f"line {place(int(match[1])).line}", why)


def _frame(d: Draft, framework: str) -> None:
    d.assume("/proposal/framework/name", framework, "the file's kind")


def _engine(file: SourceFile, found: Walk, config: Entry | None, d: Draft, place: object) -> list[Key]:
    """DeepSpeed's configuration, where the script writes it itself: what it states counts where the arguments are silent."""
    assert callable(place)
    if config is None or (isinstance(config.value, Open) and config.value.why not in found.files and not found.files):
        return []
    named = str(config.value) if not isinstance(config.value, Open) else ""
    text = found.files.get(named)
    if text is None and len(found.files) == 1:
        text = next(iter(found.files.values()))
    if text is None:
        d.note(f"'{named}' is DeepSpeed's configuration and was not read: give it as a second file", config.place)
        return []
    whole = "".join(_SLOT if piece.why is not None else piece.text for piece in text)
    inner = SourceFile("written.json", whole.encode())
    try:
        written = inner.entries()
    except InputError as error:
        d.note(f"the DeepSpeed configuration that the script writes is no JSON that is read ({error.message})", config.place)
        return []
    starts: list[tuple[int, int]] = []
    size = 0
    for piece in text:
        starts.append((size, piece.offset))
        size += len(_SLOT if piece.why is not None else piece.text)

    def moved(where: Place) -> Place:
        at = inner.source.line_starts[(where.line or 1) - 1] + (where.column or 1) - 1
        start, offset = max((one for one in starts if one[0] <= at), default=(0, 0))
        moved_place: Place = place(offset + at - start)
        return moved_place

    unset = Open("the script does not set it")
    entries = [
        Entry(e.key, unset if isinstance(e.value, Open) or _SLOT in str(e.value) else e.value, moved(e.place)) for e in written
    ]
    own = Draft(d.place, deepspeed.SOURCE)
    e = Entries(deepspeed.automatic(entries))
    put_settings(d, e)
    deepspeed.read_entries(e, own)
    deepspeed.close(e)
    for path, part in own.parts.items():
        if part.assumed is not None or path.startswith(f"{PLAN}/uniform"):
            continue
        there = d.parts.get(path)
        if there is None or there.assumed is not None:
            d.parts[path] = part
        elif there.value != part.value:
            d.note(
                f"'{part.key}' is {part.value} in DeepSpeed's configuration and '{there.key}' {there.value} in the arguments",
                part.place,
            )
    d.notes += [note for note in own.notes if "refuses" in note[0]]
    return list(e.uses())
