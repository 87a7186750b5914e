"""What stays the same of a finding when its file changes around it, for platforms that follow findings over time.

A fingerprint is made of the rule, the file and what the finding is about: lines may move, wording and figures may change,
plans may be reordered. It knows no format.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from ..document import split_pointer
from ..facts import Fact
from ..inference import Finding
from .lint_report import Report

#: Fields that say which of several things of one kind a fact is, never how large something is.
_WHICH = ("plan", "name", "item", "role", "axis", "stage", "link", "framework", "field", "quantity")


def fingerprints(report: Report, name: str) -> tuple[str, ...]:
    """One for each finding of `report`, in their order, no two alike; `name` is the file's path in its repository."""
    seen: Counter[str] = Counter()
    found = []
    for finding in report.findings:
        key = about(finding, report.loaded.document.data)
        seen[key] += 1
        # Alike in all that says what they are about: told apart by their order alone.
        found.append(hashlib.sha256(f"{name}\n{key}\n{seen[key]}".encode("utf-8", "backslashreplace")).hexdigest()[:32])
    return tuple(found)


def about(finding: Finding, data: object) -> str:
    """What a finding of a document is about, in a form that two versions of the document share."""
    rows = [finding.rule_id, lasting(finding.path, data)]
    rows += [f"{bound} {fact.kind} {lasting(fact.path, data)} {_which(fact)}" for bound, fact in finding.bindings]
    return "\n".join(rows)


def _which(fact: Fact) -> str:
    return " ".join(f"{field}={fact.values[field]}" for field in _WHICH if field in fact.values)


def lasting(pointer: str, data: object) -> str:
    """A pointer in which an item of a list that has a `name` of its own goes by it, not by its position."""
    parts, here = [], data
    for token in split_pointer(pointer):
        shown = token
        if isinstance(here, list) and token.isdigit() and int(token) < len(here):
            names = [item.get("name") if isinstance(item, dict) else None for item in here]
            here = here[int(token)]
            own = names[int(token)]
            if isinstance(own, str) and names.count(own) == 1:
                shown = f"[{own}]"
        elif isinstance(here, dict):
            here = here.get(token)
        else:
            here = None
        parts.append(shown)
    return "/".join(["", *parts])
