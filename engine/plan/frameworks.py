"""Training frameworks by name: what else each is called, what it stands on, and where its own checks were read.

The one table of names: facts, rules, prices and the search look a framework up here, by any of its names.

A framework *stands on* another where it hands its configuration to it: what the lower one refuses, it refuses too. The rules of
a framework hold at the version given here; those of another version may differ, and a rule says so. Nothing here judges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework. `read` is the version whose checks its rules hold; None where it has no rules of its own."""

    name: str
    read: str | None = None
    also: tuple[str, ...] = ()
    stands_on: tuple[str, ...] = ()


_KNOWN = (
    Framework("megatron-core", "d98e8a64dd", ("mcore",)),
    Framework("megatron-lm", "d98e8a64dd", ("megatron",), ("megatron-core",)),
    Framework("megatron-bridge", None, (), ("megatron-core",)),
    Framework("nemo", None, ("nemo-framework", "nemo-speech"), ("megatron-core",)),
    Framework("primus", None, ("primus-megatron",), ("megatron-lm",)),
    Framework("torchtitan", "b5bcd76c6", ("torch-titan",)),
    Framework("primus-torchtitan", None, (), ("torchtitan",)),
    Framework("deepspeed", "edaa72212"),
    Framework("megatron-deepspeed", None, (), ("deepspeed",)),
    Framework("gpt-neox", "ea7aefd8", ("neox", "gptneox"), ("deepspeed",)),
    Framework("nanotron", "2411b022"),
    Framework("fsdp", None, ("pytorch-fsdp", "torch-fsdp", "fsdp2")),
    Framework("llm-foundry", "8c8dd48f7", ("llmfoundry", "composer"), ("fsdp",)),
    Framework("accelerate", "16cb6eb8", ("huggingface-accelerate",)),
    Framework("alpa"),
)
FRAMEWORKS: Mapping[str, Framework] = MappingProxyType({one.name: one for one in _KNOWN})
_BY_NAME = MappingProxyType({name: one.name for one in _KNOWN for name in (one.name, *one.also)})
_RELEASE = re.compile(r"(?:^|[^0-9A-Za-z.])r?v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?![0-9A-Za-z])")


def framework_called(name: str) -> Framework | None:
    """The framework that goes by `name`, in any case and with blanks or underscores for hyphens."""
    found = _BY_NAME.get("-".join(name.lower().replace("_", " ").split()))
    return FRAMEWORKS[found] if found is not None else None


def lineage(framework: Framework) -> tuple[Framework, ...]:
    """The framework and everything it stands on, each once, nearest first."""
    found = [framework]
    for one in found:
        found += [FRAMEWORKS[name] for name in one.stands_on if FRAMEWORKS[name] not in found]
    return tuple(found)


def nearest(name: str | None, table: Mapping[str, T]) -> T | None:
    """What `table` has for the framework that goes by `name`, or else for the nearest one that it stands on."""
    known = framework_called(name) if name else None
    return next((table[one.name] for one in lineage(known) if one.name in table), None) if known is not None else None


def release_number(version: str) -> int | None:
    """A release as a number that can be compared: `core_r0.14.1` is 14001, `2.3` is 2003000; None for a commit."""
    found = _RELEASE.search(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return (major * 1000 + minor) * 1000 + patch
