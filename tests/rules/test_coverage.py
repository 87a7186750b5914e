"""What frameworks enforce and what people report is answered by rules, or the reason why not is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from planproof.document import load_document
from planproof.facts import KINDS
from planproof.inference import Rule, load_catalogue
from planproof.inference.examples import base_path
from planproof.inference.rule import Example
from planproof.plan.frameworks import FRAMEWORKS, framework_called, lineage

ROOT = Path(__file__).resolve().parents[2]
COVERAGE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "coverage.yaml").read_text(encoding="utf-8"))
BRIEF: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "brief.yaml").read_text(encoding="utf-8"))
RULES = {rule.id: rule for rule in load_catalogue(KINDS).rules}
ENTRIES = {name: entry for section in COVERAGE.values() for name, entry in section["entries"].items()}
LISTED = {rule for entry in ENTRIES.values() for rule in entry.get("rules", ())}


def test_entries_are_numbered_without_a_gap_and_sections_name_a_public_source() -> None:
    for key, section in COVERAGE.items():
        assert set(section) == {"title", "source", "entries"}
        assert list(section["entries"]) == [f"{key}{number:02}" for number in range(1, len(section["entries"]) + 1)]
        assert "https://" in section["source"] or all("https://" in one["says"] for one in section["entries"].values())
    assert len(ENTRIES) >= 100


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_has_rules_that_exist_or_a_reason(name: str) -> None:
    entry = ENTRIES[name]
    assert set(entry) <= {"says", "rules", "why_not", "note"}
    assert entry["says"].endswith(".")
    assert ("rules" in entry) is ("why_not" not in entry)
    assert set(entry.get("rules", ())) <= set(RULES)
    assert len(entry.get("why_not", "as long as a reason")) > 15
    named = re.findall(r"tests/\S+\.py", entry.get("why_not", ""))
    assert all((ROOT / path).is_file() for path in named)


def test_every_rule_is_cited_or_has_a_source_of_its_own() -> None:
    cited = LISTED | {rule for entry in BRIEF.values() for rule in entry.get("rules", ())}
    outside = {rule.id for rule in RULES.values() if any(one.kind != "brief" for one in rule.source)}
    assert sorted(set(RULES) - cited - outside) == []


def test_every_rule_of_a_framework_is_in_the_table() -> None:
    packs = {rule.id for rule in RULES.values() if rule.frameworks}
    assert sorted(packs - LISTED) == []


def test_every_rule_of_a_framework_names_a_version_that_was_read() -> None:
    """It holds for frameworks with a version of their own, or for those that stand on one, and its source says which."""
    for rule in RULES.values():
        sources = [one for one in rule.source if one.kind in ("framework", "paper", "url")]
        if rule.frameworks:
            assert sources, rule.id
            assert all(one.version for one in sources if one.kind == "framework"), rule.id
            assert all(name in FRAMEWORKS for name in rule.frameworks)


def active(example: Example, rule: Rule) -> bool:
    """Whether the example's proposal names a framework that the rule holds for, or one that stands on it."""
    stated = dict(example.patch).get("/proposal/framework", "the base's own")
    if not isinstance(stated, dict):
        stated = load_document(base_path(example.base)).data["proposal"]["framework"] if stated is not None else {"name": "none"}
    known = framework_called(stated["name"])
    return known is not None and not {one.name for one in lineage(known)}.isdisjoint(rule.frameworks)


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.frameworks], ids=lambda rule: rule.id)
def test_a_rule_of_a_framework_is_tried_on_both_sides(rule: Rule) -> None:
    """What the framework refuses fires, and what it accepts, with the same framework named, does not."""
    assert all(active(one, rule) for one in rule.fires)
    assert any(active(one, rule) for one in rule.silent)
