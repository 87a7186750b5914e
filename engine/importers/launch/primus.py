"""A Primus (AMD) experiment in YAML: a preset of the model, overrides of it, for the Megatron or the torchtitan backend.

Presets stand in Primus' repository; the shapes of those that are known are in `primus_models.yaml` and count as assumed. The
module's own defaults are those of primus/configs/modules/megatron/trainer_base.yaml at fd1eeabba, which are Megatron's where
nothing else is said here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ...errors import InputError
from . import torchtitan
from .draft import Draft
from .entries import Entries, Entry
from .interpolation import resolved
from .megatron import arguments_as_lists, read_arguments
from .megatron_keys import PATTERNS
from .megatron_model import Dialect
from .parts import Key, Launch, Part
from .presets import preset, set_aside
from .settings import put_settings
from .sources import SourceFile, not_this

KIND: Final = "primus"
DIALECT: Final = Dialect(
    "primus", "Primus fd1eeabba, primus/configs/models/megatron/language_model.yaml", groups_need_flag=True,
    sharded_optimizer=False, tied=False, biases=False,
)  # fmt: skip
_MODULE: Final = "Primus fd1eeabba, primus/configs/modules/megatron/trainer_base.yaml"


def recognises(file: SourceFile) -> bool:
    """Whether a YAML file has Primus' modules."""
    modules = file.top.get("modules") if file.form == "yaml" else None
    return isinstance(modules, dict) and any(
        isinstance(one, dict) and ("overrides" in one or "framework" in one) for one in modules.values()
    )


def read(file: SourceFile) -> Launch:
    """Read an experiment."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "'modules' with 'framework' and 'overrides'")
    modules = file.top["modules"]
    assert isinstance(modules, dict)
    name = next((key for key, one in modules.items() if isinstance(one, dict) and "train" in key), next(iter(modules)))
    module = modules[name]
    framework = str(module.get("framework", "megatron"))
    found = resolved(file.entries(), file.given)
    adapter = next((e for e in found if e.key.endswith("overrides.lora.enabled") and e.value is True), None)
    if adapter is not None:
        raise InputError(
            "This configuration trains an adapter ('lora.enabled: true'); only training of all parameters is modelled.",
            place=adapter.place, code="launch.adapter", remedy="Give a configuration of full training.",
        )  # fmt: skip
    base = f"modules.{name}."
    model = next((e for e in found if e.key == base + "model"), None)
    inner = [replace(e, key=e.key.removeprefix(base + "overrides.")) for e in found if e.key.startswith(base + "overrides.")]
    outer = Entries([e for e in found if not e.key.startswith(base + "overrides.")])
    outer.take(base + "model", base + "framework")
    outer.set_aside({e.key: "names of the experiment and its folders" for e in outer})
    d = Draft(file.start, DIALECT.source)
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    named = re.sub(r"\.ya?ml$", "", str(model.value)) if model is not None else ""
    if framework == "torchtitan":
        match = re.fullmatch(r"(llama3|deepseek_v3|qwen3)(?:\.\d)?[_-](\w+?)(?:-fp8)?", named)
        if match and model is not None:
            inner += [
                replace(model, key="model.name", value=match[1]),
                replace(model, key="model.flavor", value=match[2].upper()),
            ]
        e = Entries(inner)
        d.source = torchtitan.SOURCE
        torchtitan.read_entries(e, d)
        set_aside(e, KIND)
    elif framework == "megatron":
        config = next((str(e.value) for e in found if e.key == base + "config"), "")
        e = Entries([*_with_preset(inner, named, model, d), *_module_defaults(inner, d, config)], loose=True)
        read_arguments(e, d, DIALECT)
        _as_assumed(d, named, model)
        put_settings(d, arguments_as_lists(inner), loose=True)
        set_aside(e, KIND)
        set_aside(e, "megatron")
        e.set_aside({}, PATTERNS)
    else:
        raise InputError(
            f"The backend '{framework}' of Primus is not read; megatron and torchtitan are.",
            place=file.start, code="launch.backend",
            remedy="State the plan in the proposal.",
        )  # fmt: skip
    d.assume("/proposal/framework/name", "primus", "the file's kind")
    stated = {
        entry.key for entry in inner if entry.place.line is not None and not entry.key.startswith(("model.name", "model.flavor"))
    }
    keys = [*outer.uses(), *(Key(key.name, key.place, key.use, key.why) for key in e.uses() if key.name in stated)]
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "primus",
        tuple(d.parts.values()),
        tuple(keys),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


_PRESET: Final = "preset:"
_DEFAULT: Final = "default:"


def _with_preset(inner: list[Entry], named: str, model: Entry | None, d: Draft) -> list[Entry]:
    """The overrides, and under them the preset's keys."""
    known = preset("primus_models.yaml", named)
    if known is None:
        d.leave("/model/transformer",
                f"the preset '{named}' stands in Primus' repository and is not known here; add the model's config.json",
                model.place if model is not None else None)  # fmt: skip
        return inner
    assert model is not None
    stated = {entry.key for entry in inner}
    return [
        *inner,
        *(Entry(key, value, replace(model.place, pointer=_PRESET + key)) for key, value in known.items() if key not in stated),
    ]


def _module_defaults(inner: list[Entry], d: Draft, config: str) -> list[Entry]:
    """What the module's own defaults state otherwise than Megatron's arguments."""
    stated = {entry.key for entry in inner}
    where = replace(d.place, pointer=_DEFAULT)
    found = [Entry("bf16", True, where)] if not {"bf16", "fp16"} & stated else []
    if re.fullmatch(r"(?:pre|sft)_trainer\.ya?ml", config) and "use_distributed_optimizer" not in stated:
        found.append(Entry("use_distributed_optimizer", True, where))
    return found


def _as_assumed(d: Draft, named: str, model: Entry | None) -> None:
    """Parts that come from the preset are assumed."""
    why = f"preset '{named}', Primus fd1eeabba, primus/configs/models/megatron/{named}.yaml"
    for path, part in list(d.parts.items()):
        if part.place.pointer == _DEFAULT:
            d.parts[path] = Part(path, part.value, d.place, "", f"'{part.key}' is on by default; {_MODULE}")
        elif part.place.pointer is not None and part.place.pointer.startswith(_PRESET) and model is not None:
            d.parts[path] = Part(path, part.value, model.place, "model", why)
