"""Examples are patches on a base's own text: what they may change, and how a wrong one is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from planproof.errors import RuleError
from planproof.facts import KINDS, Fact
from planproof.inference import Phase, Rule, load_rule
from planproof.inference.examples import base_path, check_rule, example_text, patched
from planproof.inference.rule import Example

RULE = """
id: XYZ001
title: A rule for this test
severity: note
phase: evidence
when: {all: [{gap: {kind: missing, item: model}}]}
message: "x."
remedy: "y."
source: [{brief: B05}]
examples:
  fires: [{base: dense, patch: {/model: null}, note: no model}]
  silent: [{base: dense}]
"""


def rule(text: str = RULE) -> Rule:
    return load_rule(text, "xyz.yaml", KINDS)


def has_model(raw: bytes) -> bool:
    return "model" in yaml.safe_load(raw)


def test_an_example_without_a_patch_is_the_base_as_it_stands_with_its_comments() -> None:
    base = base_path("dense").read_bytes()
    assert example_text(Example("dense", ()))[0] == base
    assert base.startswith(b"#")
    assert b"#" not in example_text(Example("dense", (("/profile", None),)))[0]


def test_a_patch_sets_deletes_appends_and_makes_what_is_between() -> None:
    data = {"a": {"b": 1, "c/d": 2}, "l": [{"x": 1}, {"x": 2}]}
    patch = {"/a/b": None, "/a/c~1d": 3, "/l/0/x": 9, "/l/2": {"x": 3}, "/new/deep": "v", "/l/1": None}
    found = patched(data, patch.items())
    assert found == {"a": {"c/d": 3}, "l": [{"x": 9}, {"x": 3}], "new": {"deep": "v"}}
    assert data == {"a": {"b": 1, "c/d": 2}, "l": [{"x": 1}, {"x": 2}]}


@pytest.mark.parametrize("pointer", ["/a/x", "/l/5", "/l/one", "/a/b/c", "/l/5/x"])
def test_a_patch_that_leads_nowhere_is_an_error(pointer: str) -> None:
    with pytest.raises(RuleError, match="patch"):
        patched({"a": {"b": 1}, "l": [1]}, [(pointer, None)])


def test_an_example_is_the_base_as_bytes_with_the_patch() -> None:
    raw, path = example_text(Example("dense", (("/proposal/title", "é"),)))
    assert path == base_path("dense")
    base = yaml.safe_load(path.read_text())
    found = yaml.safe_load(raw)
    assert found["proposal"]["title"] == "é"
    assert found["model"] == base["model"]


def test_the_judge_sees_the_patched_text_the_phase_and_the_added_facts() -> None:
    seen: list[tuple[bool, Phase, int]] = []

    def judge(raw: bytes, path: Path, phase: Phase, extra: Sequence[Fact]) -> list[str]:
        seen.append((has_model(raw), phase, len(extra)))
        return [] if has_model(raw) else ["XYZ001"]

    assert check_rule(rule(), judge) == []
    assert seen == [(False, Phase.EVIDENCE, 0), (True, Phase.EVIDENCE, 0)]


def test_a_rule_that_does_not_do_what_its_examples_say_is_told_with_the_rules_that_fired() -> None:
    wrong = check_rule(rule(), lambda raw, path, phase, extra: ["XYZ001"] if has_model(raw) else ["ABC001"])
    assert wrong == [
        "XYZ001: fires[0] (dense, no model): the rule is silent; the rules that fired: ABC001",
        "XYZ001: silent[0] (dense): the rule fires; the rules that fired: XYZ001",
    ]


def test_an_unknown_base_is_told_with_those_there_are() -> None:
    wrong = check_rule(rule(RULE.replace("base: dense}", "base: dens}")), lambda *_: ["XYZ001"])
    assert len(wrong) == 1
    assert "'dens'" in wrong[0]
    assert "dense" in wrong[0]
    assert "moe" in wrong[0]


def test_a_folder_of_rules_may_bring_its_own_bases(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases" / "own.yaml").write_text("planproof: 1\nproposal: {title: own}\n")
    file = tmp_path / "own-rule.yaml"
    file.write_text(RULE.replace("base: dense", "base: own").replace("{/model: null}", "{/proposal/title: other}"))
    titles = []

    def judge(raw: bytes, path: Path, phase: Phase, extra: Sequence[Fact]) -> list[str]:
        titles.append(yaml.safe_load(raw)["proposal"]["title"])
        return ["XYZ001"] if titles[-1] == "other" else []

    assert check_rule(load_rule(file.read_bytes(), str(file), KINDS), judge) == []
    assert titles == ["other", "own"]
