"""A configuration is strict: every key known, every value of its form, and an error that names key, value and what would do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_cases import configured
from planproof.config.settings import KEYS
from planproof.errors import UsageError


@pytest.mark.parametrize(
    ("text", "words", "remedy", "line"),
    [
        ("\nfail_on = 'note'", "no key 'fail_on' .did you mean 'fail-on'", "per-file-ignores", 2),
        ("severty = {}", "did you mean 'severity'", "mandatory", 1),
        ("zzz = 1", "no key 'zzz'$", ", ".join(KEYS), 1),
        ("ignore = 'INT001'", "`ignore` must be a list of rule ids, not 'INT001'", 'ignore = \\["RULE"\\]', 1),
        ("ignore = [1]", "must be a list of rule ids", "", 1),
        ("ignore = ['INT001', 'INT001']", "names 'INT001' twice", "", 1),
        ("select = []", "`select` is empty", "Leave it out", 1),
        ("rules = {}", "must be a list of folders, not a table", "", 1),
        ("severity = ['INT001']", "`severity` must be a table, not a list", "", 1),
        ("severity = {INT001 = 'eror'}", "`severity.INT001` is 'eror' .did you mean 'error'", "error, warning, note", 1),
        ("[severity]\nINT001 = true", "is true", "error, warning, note", 2),
        ("fail-on = 'fatal'", "`fail-on` is 'fatal'", "error, warning, note, never", 1),
        ("params = {INT001 = 3}", "`params.INT001` must be a table", "", 1),
        ("[params.INT001]\nx = true", "`params.INT001.x` must be a number, a text or a list", "", 2),
        ("[params.INT001]\nx = 1.5", "whole numbers and quantities", "12.5 %", 2),
        ("[params.INT001]\nx = [[1]]", "must be a number, a text or a list", "", 2),
        ("[params.INT001]\nx = 2026-01-01", "must be a number, a text or a list", "", 2),
        ("[per-file-ignores]\n'/abs' = ['INT001']", "'/abs' is not a path", "legacy", 2),
        ("[per-file-ignores]\n'a' = 'INT001'", "must be a list of rule ids", "", 2),
        ("extend = 3", "`extend` must be a text, not 3", "", 1),
        ("extend = ''", "names nothing", "", 1),
        ("templates = 'nowhere'", "`templates` names the folder 'nowhere', and there is none", "", 1),
        ("rules = ['a\\\\b']", "", "", 1),
    ],
)
def test_what_is_wrong_is_one_error_at_its_line(tmp_path: Path, text: str, words: str, remedy: str, line: int) -> None:
    with pytest.raises(UsageError) as caught:
        configured(tmp_path, text)
    error = caught.value
    assert re.search(words, error.message), error.message
    assert re.search(remedy, error.remedy or ""), error.remedy
    assert error.remedy
    assert (error.place.file, error.place.line) == ("planproof.toml", line)
    assert (error.code, error.exit_status) == ("usage.config", 2)


def test_every_key_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    text = """
        extend = "base.toml"
        select = ["ALL"]
        ignore = ["INT004"]
        mandatory = ["MEM003"]
        rules = ["house"]
        hardware = ["house"]
        templates = "house"
        fail-on = "never"
        per-file-ignores = {"old/**" = ["INT"]}
        severity = {INT001 = "note"}
        params = {AAA001 = {floor = "1 GB/s", many = ["a", "b"], count = 3}}
    """
    (tmp_path / "base.toml").write_text("")
    found = configured(tmp_path, text)
    assert {entry.key[0] for layer in found.layers for entry in layer.entries} == set(KEYS)
    assert [entry.name for entry in found.entries("per-file-ignores")] == ['per-file-ignores."old/**"']


def test_a_file_that_says_nothing_changes_nothing(tmp_path: Path) -> None:
    found = configured(tmp_path, "# nothing\n")
    assert found.layers[0].entries == ()
    assert found.fail_on is None
    assert found.rules == ()
