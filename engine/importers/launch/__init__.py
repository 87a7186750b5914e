"""Launch files of training frameworks, read into parts of a proposal with the place of every value. Nothing is ever run."""

from .detect import EVIDENCE, KINDS, LAUNCH, PROPOSAL, kind_of, kinds_of, only_kind, read_launch
from .parts import Gap, Key, Launch, Part, Use
from .sources import SourceFile

__all__ = [
    "EVIDENCE",
    "KINDS",
    "LAUNCH",
    "PROPOSAL",
    "Gap",
    "Key",
    "Launch",
    "Part",
    "SourceFile",
    "Use",
    "kind_of",
    "kinds_of",
    "only_kind",
    "read_launch",
]
