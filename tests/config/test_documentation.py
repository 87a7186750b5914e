"""docs/configuration.md shows what works, and leaves nothing out."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

from config_cases import repository, shipped
from planproof.config import in_force, nearest_settings
from planproof.config.settings import KEYS
from planproof.document import parse_document
from planproof.inference.comments import FORM, KIND, read_comments

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_has_every_key_and_can_be_obeyed(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    assert set(tomllib.loads(text)) == set(KEYS)
    root = repository(tmp_path, {"a/planproof.toml": text, "planproof.toml": ""})
    for name in ("house-rules", "data-sheets", "templates"):
        (root / "a" / name).mkdir()
    catalogue, changes = in_force(shipped(), nearest_settings(root / "a" / "p.yaml"))
    assert {one.what for one in changes} == {"ignore", "mandatory", "severity", "param"}
    assert catalogue.rules


def test_every_key_has_a_row() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`([a-z-]+)`", row)}
    assert set(KEYS) <= named


def test_the_comments_shown_are_suppressions() -> None:
    (text,) = blocks("yaml")
    found = read_comments(parse_document(text.encode(), "p.yaml"))
    assert [(one.suppression.line, one.suppression.until) for one in found] == [(2, date(2027, 1, 31))] * 2
    assert all(shipped().get(one.suppression.rule) is not None for one in found)
    assert FORM.split(" ")[1:3] == ["planproof:", "ignore"]


def test_every_rule_about_suppressions_is_listed() -> None:
    rules = {rule.id for rule in shipped().rules if KIND in rule.kinds()}
    assert rules
    assert rules == set(re.findall(r"^\| ([A-Z]{3}[0-9]{3}) \|", PAGE, re.MULTILINE))
