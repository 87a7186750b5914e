"""Reports for the tests of formats: one proposal that is quick to resolve, findings made by hand, and texts that attack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from planproof.errors import InputError, Place
from planproof.facts import KINDS, Fact
from planproof.hardware import open_library
from planproof.inference import Finding, Phase, Rule, Severity, Suppression, load_catalogue
from planproof.proposal import Case, LoadedProposal, parse_proposal, resolve
from planproof.report.formats import Checked, Unjudged, writer
from planproof.report.lint_report import from_examination

SCHEMAS = Path(__file__).parent.parent / "data" / "schemas"
#: Whatever a format, a terminal, a runner or a browser might obey.
HOSTILE = (
    "::error::x ##[add-mask]y\n::set-output name=a::b\r\n%0A::stop-commands::z | a | <script>alert(1)</script> "
    "<!-- ]]> --> & \" ' `c` [t](javascript:e) ![i](u) \x1b[2J\x07 \u202e \u2028 \u200b \ud800 \ufffe \\ $x$ ~~s~~ # h"
)
#: As a file may be called on POSIX.
HOSTILE_NAME = "plans/a b,c:d%0A\n::error file=x::e|`<b>&\"'é##[error]f.yaml"
TEXT = """\
planproof: 1
proposal:
  title: TITLE
plans:
  - {name: first, role: reference, zero: 1}
  - {name: zweite Größe 𝔷, role: submitted, zero: 2}  # a comment
"""


@dataclass
class Examined:
    case: Case
    findings: Sequence[Finding]
    facts: Sequence[Fact] = ()
    ledgers: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[Phase] = ()


def finding(rule: str, path: str = "", severity: Severity = Severity.WARNING, **changes: Any) -> Finding:
    base = Finding(rule, f"title of {rule}", severity, Phase.SHAPE, f"message of {rule}", "do it", path, (), False, ())
    return replace(base, **changes)


def hidden(reason: str = "known", *, line: int | None = None, rule: str = "A1") -> Suppression:
    return Suppression(rule, reason, "ops", line=line)


@cache
def case(text: str = TEXT, name: str = "plans/p.yaml") -> Case:
    loaded: LoadedProposal = parse_proposal(text.encode("utf-8"), name, Path(name))
    return resolve(loaded, open_library())


@cache
def rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in load_catalogue(KINDS).rules}


def checked(*findings: Finding, text: str = TEXT, name: str = "plans/p.yaml", **changes: Any) -> Checked:
    report = from_examination(Examined(case(text, name), findings), rules().values())
    return replace(Checked(report, name), **changes)


def unjudged(name: str = "bad.yaml", message: str = "bad bytes", **place: Any) -> Unjudged:
    error = InputError(message, place=Place(name, **place), remedy="mend it", code="input.yaml")
    return Unjudged(name, name, error)


def written(format_: str, *found: Checked, broken: Sequence[Unjudged] = ()) -> str:
    """The whole output, the parts having gone through the form in which one process hands them to another."""
    import pickle

    chosen = writer(format_)
    parts = [pickle.loads(pickle.dumps(chosen.part(one))) for one in found]
    return chosen.whole(parts, broken)


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
