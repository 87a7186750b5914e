"""The generated pages say what is in force. `python -m planproof.report.docs docs` writes them again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from planproof.document import load_document
from planproof.facts import KINDS
from planproof.facts.fact import Kind, whole
from planproof.inference import load_catalogue
from planproof.report.docs import main, pages
from planproof.report.facts_page import ORIGINS, facts_page
from planproof.report.rules_page import ABOUT, rules_page

REMEDY = "stale: run python -m planproof.report.docs docs"
PAGES = ("cli.md", "facts.md", "rules.md", "schema/proposal.json")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dict(pages())


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_as_it_would_be_generated_now(name: str, made: dict[str, str], root: Path) -> None:
    assert (root / "docs" / name).read_text(encoding="utf-8") == made[name], REMEDY


def test_the_command_writes_every_page_and_nothing_else(tmp_path: Path, made: dict[str, str]) -> None:
    assert main([str(tmp_path)]) == 0
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(PAGES) == set(made)


def test_the_command_asks_for_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_every_kind_and_field_is_on_the_page_of_facts(made: dict[str, str]) -> None:
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", made["facts.md"], re.MULTILINE | re.DOTALL))
    assert set(sections) == set(KINDS)
    for name, kind in KINDS.items():
        assert re.findall(r"^\| `(\w+)` \|", sections[name], re.MULTILINE) == list(kind.fields)


def test_a_kind_of_an_unknown_origin_would_be_left_out() -> None:
    assert {kind.origin for kind in KINDS.values()} == set(ORIGINS)


def test_the_page_of_facts_names_the_unit_that_a_field_holds() -> None:
    page = facts_page({"x": Kind("x", "A | b.", {"wait_ns": whole("How long.", optional=True)})})
    assert "| `wait_ns` | number, seconds x 1,000,000,000; may be absent | How long. |" in page
    assert r"A \| b." in page


def test_every_rule_is_on_the_page_of_rules_with_its_texts(made: dict[str, str]) -> None:
    rules = load_catalogue(KINDS).rules
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", made["rules.md"], re.MULTILINE | re.DOTALL))
    assert set(sections) == {rule.id for rule in rules}
    assert {rule.phase for rule in rules} <= set(ABOUT)
    for rule in rules:
        text = sections[rule.id]
        assert "What to do: " in text
        assert rule.file in text
        assert all(source.value in text.replace("\\", "") for source in rule.source)
        assert all(f"{name} = " in text.replace("\\", "") for name in rule.params)
        block = re.search(r"^(`{3,})yaml\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL)
        assert block is not None
        assert yaml.safe_load(block[2]) == (dict(rule.fires[0].patch) or None)


def test_a_catalogue_without_rules_is_a_page_too() -> None:
    assert "0 rules: 0 errors, 0 warnings, 0 notes." in rules_page(())


def test_the_schema_takes_the_shipped_proposals_and_refuses_an_unknown_key(made: dict[str, str], root: Path) -> None:
    schema = json.loads(made["schema/proposal.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    proposals = [*sorted((root / "rules" / "bases").glob("*.yaml")), *sorted((root / "examples").glob("*/proposal.yaml"))]
    assert len(proposals) > 3
    for path in proposals:
        problems = list(judge.iter_errors(load_document(path).data))
        assert [f"{path.name} {'/'.join(map(str, one.path))}: {one.message[-200:]}" for one in problems] == []
    assert list(judge.iter_errors({"planproof": 1, "modle": {}}))
