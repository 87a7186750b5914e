"""Workflow commands, read back by a small interpreter of them: none is there that we did not write."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from format_cases import HOSTILE, HOSTILE_NAME, checked, finding, hidden, unjudged, written
from hypothesis import given
from hypothesis import strategies as st
from planproof.inference import Severity
from planproof.report.github import SHOWN, escape_data, escape_property


@dataclass(frozen=True)
class Command:
    name: str
    properties: dict[str, str]
    data: str


def interpret(output: str) -> tuple[list[Command], list[str]]:
    """What the runner does with standard output: both forms of command, on every kind of line end; the rest is log."""
    commands, log = [], []
    for line in re.split(r"\r\n|\r|\n", output):
        text = line.lstrip()
        if text.startswith("::") and (end := text.find("::", 2)) >= 0:
            name, _, rest = text[2:end].partition(" ")
            pairs = [pair.partition("=") for pair in rest.split(",") if "=" in pair]
            commands.append(
                Command(name, {key.strip(): unescape(value, True) for key, _, value in pairs}, unescape(text[end + 2 :], False))
            )
        elif (start := line.find("##[")) >= 0 and "]" in line[start:]:
            name, _, data = line[start + 3 :].partition("]")
            commands.append(Command(name, {}, data))
        else:
            log.append(line)
    return commands, log


def unescape(text: str, property_: bool) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), *((("%3A", ":"), ("%2C", ",")) if property_ else ())):
        text = text.replace(code, char)
    return text.replace("%25", "%")


def test_a_finding_is_a_command_with_file_line_column_title_and_words() -> None:
    commands, log = interpret(written("github", checked(finding("A1", "/plans/1/zero", Severity.ERROR))))
    (one,) = commands
    assert (one.name, one.data) == ("error", "message of A1\ndo it")
    assert one.properties == {"file": "plans/p.yaml", "line": "6", "col": "51", "title": "A1 title of A1"}
    assert log == ["planproof: 1 file, 1 error, 0 warnings, 0 notes", ""]


def test_errors_come_first_then_warnings_then_notes_each_by_file_and_line() -> None:
    kinds = [finding(f"{s.value[0].upper()}{k}", f"/plans/{k}", s) for s in reversed(Severity) for k in (1, 0)]
    commands, _ = interpret(written("github", checked(*kinds, name="z.yaml"), checked(*kinds, name="a.yaml")))
    assert [one.name for one in commands] == ["error"] * 4 + ["warning"] * 4 + ["notice"] * 4
    assert [one.properties["file"] for one in commands] == ["a.yaml", "a.yaml", "z.yaml", "z.yaml"] * 3
    assert [one.properties["line"] for one in commands[:4]] == ["5", "6", "5", "6"]


def test_beyond_ten_of_a_level_the_rest_is_in_the_log_and_the_cut_is_said() -> None:
    many = [finding(f"W{k:02}", "/plans/0") for k in range(SHOWN + 3)]
    commands, log = interpret(written("github", checked(*many, finding("E1", "/plans/0", Severity.ERROR))))
    assert [one.name for one in commands] == ["error"] + ["warning"] * SHOWN
    assert log[0] == "GitHub shows 10 annotations of a level and step: 3 warnings more stand only here and in the summary."
    assert [line.split()[2] for line in log[1:4]] == ["W10", "W11", "W12"]
    assert log[4].endswith("1 error, 13 warnings, 0 notes")


def test_exactly_ten_of_a_level_are_not_cut() -> None:
    commands, log = interpret(written("github", checked(*(finding(f"W{k}") for k in range(SHOWN)))))
    assert (len(commands), len(log)) == (SHOWN, 2)


def test_a_suppressed_finding_is_counted_and_not_annotated() -> None:
    commands, log = interpret(written("github", checked(finding("A1", suppressed=hidden()))))
    assert commands == []
    assert log[0].endswith("0 notes, 1 suppressed")


def test_a_file_that_could_not_be_judged_is_an_error_on_its_line() -> None:
    commands, log = interpret(written("github", broken=[unjudged(line=3, column=7)]))
    assert commands[0].properties == {"file": "bad.yaml", "line": "3", "col": "7", "title": "not judged (input.yaml)"}
    assert commands[0].data == "bad bytes mend it"
    assert log[0].startswith("planproof: 1 file, 1 error")


@pytest.mark.parametrize("number", [1, SHOWN + 2])
def test_hostile_texts_and_names_make_no_command_of_their_own(number: int) -> None:
    found = [finding(f"A{k:02}", title=HOSTILE, message=HOSTILE, remedy=HOSTILE) for k in range(number)]
    output = written("github", checked(*found, name=HOSTILE_NAME), broken=[unjudged(HOSTILE_NAME, HOSTILE)])
    commands, log = interpret(output)
    assert [one.name for one in commands] == ["error", *["warning"] * min(number, SHOWN)]
    assert {frozenset(one.properties) for one in commands} == {frozenset({"file", "line", "col", "title"})}
    # The one thing that is not given back letter for letter is what the older form of commands begins with.
    assert {one.properties["file"] for one in commands} == {HOSTILE_NAME.replace("##[", "## [")}
    assert len(log) == 2 + (1 + number - SHOWN if number > SHOWN else 0)


@given(st.text())
def test_what_is_escaped_comes_back(text: str) -> None:
    assert unescape(escape_data(text), False) == text
    assert unescape(escape_property(text), True) == text
    assert not {"\n", "\r"} & set(escape_data(text))
    assert not {"\n", "\r", ":", ","} & set(escape_property(text))
