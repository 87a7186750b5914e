"""Every sentence of the brief is answered: by rules that cite it, by functions that exist, under headings of the record."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from planproof.facts import KINDS
from planproof.inference import load_catalogue

ROOT = Path(__file__).resolve().parents[2]
BRIEF: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "brief.yaml").read_text())
RULES = load_catalogue(KINDS).rules


def citing(sentence: str) -> set[str]:
    return {rule.id for rule in RULES if any((one.kind, one.value) == ("brief", sentence) for one in rule.source)}


def test_sentences_are_numbered_without_a_gap() -> None:
    assert list(BRIEF) == [f"B{number:02}" for number in range(1, len(BRIEF) + 1)]
    assert len(BRIEF) == 34


@pytest.mark.parametrize("sentence", BRIEF)
def test_every_sentence_has_an_answer_and_a_place_in_the_record(sentence: str) -> None:
    entry = BRIEF[sentence]
    assert set(entry) <= {"says", "rules", "functions", "record"}
    assert entry["says"].endswith(".")
    assert entry.get("rules") or entry.get("functions"), "nothing answers it"
    headings = set(re.findall(r"^## (.+?)\s*$", (ROOT / "templates" / "record.md.j2").read_text(), re.MULTILINE))
    assert entry["record"]
    assert set(entry["record"]) <= headings


@pytest.mark.parametrize("sentence", BRIEF)
def test_the_rules_listed_are_those_that_cite_the_sentence(sentence: str) -> None:
    assert set(BRIEF[sentence].get("rules", ())) == citing(sentence)


def test_every_rule_cites_a_sentence_that_exists_or_another_source() -> None:
    cited = {one.value for rule in RULES for one in rule.source if one.kind == "brief"}
    assert cited <= set(BRIEF)
    assert [rule.id for rule in RULES if not rule.source] == []


@pytest.mark.parametrize("name", sorted({name for entry in BRIEF.values() for name in entry.get("functions", ())}))
def test_every_function_listed_exists(name: str) -> None:
    module, _, function = name.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
