"""A framework's own settings in one form, and what they say of the exchange between experts.

`--overlap-param-gather`, `overlap_param_gather` and `overlapParamGather: True` in three files are one setting. What a name
means otherwise, and which ones a framework has, is for rules to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model import Dispatcher
from .schema import Heading

Stated = bool | int | float | str | None | list[bool | int | float | str | None]
PATH = "/proposal/framework/settings"
_YES, _NO = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})


def setting_name(written: str) -> str:
    """The one form of a setting's name: `--tp-comm-overlap` is `tp_comm_overlap`."""
    return re.sub(r"[-\s]+", "_", written.strip().lstrip("-")).lower()


def setting_text(value: Stated) -> str:
    """The one form of a value."""
    if isinstance(value, list):
        return ", ".join(setting_text(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    text = str(value).strip()
    return "yes" if text.lower() in _YES else "no" if text.lower() in _NO else text


def settings_of(heading: Heading | None) -> dict[str, tuple[Stated, str]]:
    """The settings of a proposal by their one name, each with its pointer; of two spellings the later counts."""
    stated: Mapping[str, Stated] = (heading.framework.settings if heading and heading.framework else None) or {}
    found = {
        setting_name(name): (value, f"{PATH}/{name.replace('~', '~0').replace('/', '~1')}") for name, value in stated.items()
    }
    for name, (value, path) in tuple(found.items()):
        # `--no-overlap-p2p-communication` is how a command line says that overlap_p2p_communication is off.
        if name.startswith("no_") and setting_text(value) == "yes":
            found.setdefault(name.removeprefix("no_"), (False, path))
    return found


#: What chooses a dispatcher: Megatron-Core's arguments, torchtitan's job configuration, Primus' switch (by the last part of a
#: nested name). The first that speaks counts.
_DISPATCHERS: tuple[tuple[str, Mapping[str, Dispatcher]], ...] = (
    ("moe_enable_deepep", {"yes": Dispatcher.DEEPEP}),
    ("use_turbo_deepep", {"yes": Dispatcher.DEEPEP}),
    (
        "moe_token_dispatcher_type",
        {
            "alltoall": Dispatcher.ALLTOALL, "alltoall_seq": Dispatcher.ALLTOALL, "allgather": Dispatcher.ALLGATHER,
            "flex": Dispatcher.DEEPEP,
        },
    ),
    (
        "expert_parallel_comm_backend",
        {"standard": Dispatcher.ALLTOALL, "deepep": Dispatcher.DEEPEP, "hybridep": Dispatcher.DEEPEP},
    ),
)  # fmt: skip
_OVERLAP = "overlap_moe_expert_parallel_comm"


def stated_dispatch(heading: Heading | None) -> tuple[Dispatcher | None, bool | None]:
    """The dispatcher that a framework's settings choose, and whether the exchange is overlapped; None where they are silent."""
    last = {name.rpartition(".")[2]: setting_text(value) for name, (value, _) in settings_of(heading).items()}
    chosen = next((known[last[name]] for name, known in _DISPATCHERS if last.get(name) in known), None)
    overlap = {"yes": True, "no": False}.get(last.get(_OVERLAP, ""))
    return chosen, overlap
