"""GitLab, JUnit, rdjson, Markdown, text, concise and JSON, each read back by a reader that does not know the writer."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from format_cases import HOSTILE, HOSTILE_NAME, TEXT, checked, finding, hidden, schema, unjudged, written
from planproof.inference import Severity
from planproof.report.formats import FORMATS, writer

GITLAB = "gitlab-code-quality-subset.json"
LEVELS = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def valid(text: str, name: str) -> Any:
    body = json.loads(text)
    validator = jsonschema.Draft202012Validator(schema(name))
    assert [f"{'/'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in validator.iter_errors(body)] == []
    return body


def of_each_level() -> list[Any]:
    return [finding(f"{level.value[0].upper()}1", "/plans/1/zero", level) for level in LEVELS]


# GitLab


def test_gitlab_has_each_standing_finding_with_a_fingerprint_of_its_own() -> None:
    twice = [finding("W1", "/plans/1/zero", message="again"), finding("W1", "/plans/1/zero", suppressed=hidden())]
    text = written("gitlab", checked(*of_each_level(), *twice), broken=[unjudged(line=9)])
    body = valid(text, GITLAB)
    assert sorted((one["check_name"], one["severity"]) for one in body) == [
        ("E1", "critical"), ("N1", "info"), ("W1", "major"), ("W1", "major"), ("not-judged", "blocker"),
    ]  # fmt: skip
    assert len({one["fingerprint"] for one in body}) == len(body)
    places = {(one["location"]["path"], one["location"]["lines"]["begin"]) for one in body}
    assert places == {("plans/p.yaml", 6), ("bad.yaml", 9)}


def test_gitlab_takes_hostile_texts_and_no_findings() -> None:
    body = valid(
        written("gitlab", checked(finding("A1", message=HOSTILE), name=HOSTILE_NAME), broken=[unjudged("b", HOSTILE)]),
        GITLAB,
    )
    assert body[0]["location"]["path"] == HOSTILE_NAME
    assert all(one["description"].isprintable() for one in body)
    assert valid(written("gitlab", checked()), GITLAB) == []


# rdjson


def test_rdjson_counts_columns_in_bytes() -> None:
    body = valid(written("rdjson", checked(*of_each_level(), finding("A1", suppressed=hidden()))), "rdjson-subset.json")
    source = TEXT.splitlines()[5].encode()
    assert [one["severity"] for one in body["diagnostics"]] == ["ERROR", "INFO", "WARNING"]
    for one in body["diagnostics"]:
        start, end = one["location"]["range"]["start"], one["location"]["range"]["end"]
        assert (start["line"], end["line"]) == (6, 6)
        assert source[start["column"] - 1 : end["column"] - 1] == b"2}  # a comment"
        assert one["message"] == f"message of {one['code']['value']}\ndo it"


def test_rdjson_takes_hostile_texts_and_files_that_could_not_be_judged() -> None:
    text = written("rdjson", checked(finding("A1", message=HOSTILE), name=HOSTILE_NAME), broken=[unjudged("b", HOSTILE, line=4)])
    first, second = valid(text, "rdjson-subset.json")["diagnostics"]
    assert first["location"]["path"] == HOSTILE_NAME
    assert all(line.isprintable() for line in first["message"].split("\n"))
    assert (second["code"]["value"], second["location"]["range"]["start"]) == ("input.yaml", {"line": 4})


# JUnit


def suites(text: str) -> dict[str, list[tuple[str, str | None, str]]]:
    """Each suite's cases: name, the element they hold, its text; the numbers that the document states are checked."""
    root = Xml.fromstring(text.encode())
    assert root.tag == "testsuites"
    counted = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    found = {}
    for suite in root:
        held = [next((child.tag for child in case), None) for case in suite]
        numbers = {"tests": len(held), **{f"{k}s": held.count(k) for k in ("failure", "error")}, "skipped": held.count("skipped")}
        assert {key: int(suite.attrib[key]) for key in numbers} == numbers
        counted = {key: counted[key] + numbers[key] for key in counted}
        found[suite.attrib["name"]] = [
            (case.attrib["name"], tag, "".join(case.itertext())) for case, tag in zip(suite, held, strict=True)
        ]
    assert {key: int(root.attrib[key]) for key in counted} == counted
    return found


@pytest.mark.parametrize(
    ("fail_on", "failing"), [("error", {"E1"}), ("warning", {"E1", "W1"}), ("note", {"E1", "W1", "N1"}), ("never", set())]
)
def test_junit_fails_what_the_run_fails_on(fail_on: str, failing: set[str]) -> None:
    ((name, cases),) = suites(written("junit", checked(*of_each_level(), fail_on=fail_on))).items()
    assert name == "plans/p.yaml"
    assert {case.split()[0] for case, tag, _ in cases if tag == "failure"} == failing
    assert {tag for case, tag, _ in cases if case.split()[0] not in failing} <= {"system-out"}
    assert all("plans/p.yaml:6:" in text for _, _, text in cases)


def test_junit_skips_what_is_suppressed_and_passes_a_clean_file() -> None:
    suppressed = checked(finding("A1", severity=Severity.ERROR, suppressed=hidden()))
    found = suites(written("junit", suppressed, checked(name="q.yaml"), broken=[unjudged()]))
    assert [tag for _, tag, _ in found["plans/p.yaml"]] == ["skipped"]
    assert [(name, tag) for name, tag, _ in found["q.yaml"]] == [("no findings", None)]
    assert [(name, tag) for name, tag, _ in found["bad.yaml"]] == [("can be judged", "error")]


def test_junit_is_well_formed_whatever_is_in_it() -> None:
    hostile = finding("A1", message=HOSTILE, title=HOSTILE, path="/plans/0", suppressed=hidden(HOSTILE))
    text = written("junit", checked(hostile, finding("A2", message=HOSTILE), name=HOSTILE_NAME), broken=[unjudged("b", HOSTILE)])
    assert len(suites(text)) == 2
    assert "<script" not in text


# Markdown


def cells(row: str) -> list[str]:
    """The cells of a row as a reader of tables splits it: at bars that no backslash stands before."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def test_markdown_counts_lists_and_puts_what_fails_first() -> None:
    clean = checked(name="a.yaml")
    text = written("markdown", clean, checked(*of_each_level(), finding("A9", suppressed=hidden())), broken=[unjudged(line=3)])
    assert text.startswith(
        "## planproof\n\n3 files: 1 error, 1 warning, 1 note, 1 suppressed; 1 file could not be judged.\n"
    )
    assert text.index("plans/p.yaml") < text.index("a.yaml`\n\nPasses")
    rows = [cells(line) for line in text.splitlines() if line.startswith("| ")]
    assert ["error", "6", "E1", "message of E1", "do it"] in rows
    assert ["A9: message of A9", "1", "known", "ops", "for good"] in rows
    assert ["`bad.yaml`", "3", "bad bytes mend it"] in rows
    assert [row[0] for row in rows if row[0] in ("error", "warning", "note")] == ["error", "warning", "note"]


def test_markdown_shows_hostile_texts_and_does_not_obey_them() -> None:
    hostile = finding("A1", message=HOSTILE, remedy=HOSTILE)
    text = written("markdown", checked(hostile, name=HOSTILE_NAME), broken=[unjudged(HOSTILE_NAME, HOSTILE)])
    rows = [cells(line) for line in text.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {3, 5}
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", text))
    assert "<" not in outside_code
    assert "](" not in outside_code
    assert all(line.isprintable() for line in text.splitlines())
    assert html.unescape("&lt;script&gt;")[:-1] in html.unescape(text)


def test_markdown_of_very_many_findings_says_how_many_it_leaves_out() -> None:
    text = written("markdown", checked(*(finding(f"W{k}") for k in range(203))))
    assert text.count("\n| warning |") == 200
    assert "3 more are not listed." in text


# text, concise, JSON


def test_text_and_concise_are_the_files_one_after_the_other() -> None:
    first, second = checked(finding("A1")), checked(finding("B1"), name="q.yaml")
    lines = [line.split(": ")[1] for line in written("concise", first, second).splitlines()]
    assert lines == ["A1 message of A1", "B1 message of B1"]
    assert written("text", first, second).count("\n  remedy: do it\n") == 2
    assert "\x1b[" in written("text", checked(finding("A1"), color=True))
    assert writer("text").streams
    assert writer("concise").streams


def test_json_has_reports_and_errors() -> None:
    body = json.loads(written("json", checked(finding("A1"), name="q.yaml"), broken=[unjudged(line=3, column=7)]))
    assert [report["path"] for report in body["reports"]] == ["q.yaml"]
    assert [(one["path"], one["line"], one["code"]) for one in body["errors"]] == [("bad.yaml", 3, "input.yaml")]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_the_list_takes_hostile_texts_in_every_place_and_is_utf_8(name: str) -> None:
    attack = finding("A1", "/plans/0", title=HOSTILE, message=HOSTILE, remedy=HOSTILE, suppressed=hidden(HOSTILE))
    found = checked(attack, finding("A2", message=HOSTILE), name=HOSTILE_NAME)
    text = written(name, found, broken=[unjudged(HOSTILE_NAME, HOSTILE)])
    assert text.encode("utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text or name == "json"
    assert text == "" or text.endswith("\n")


def test_a_format_that_is_not_listed_has_no_writer() -> None:
    with pytest.raises(KeyError):
        writer("xml")
