"""Lint reports: order, headroom first on a pass, the source line with a caret, nothing that a terminal would obey."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from planproof.errors import InputError, Place
from planproof.facts import KINDS, Fact, make
from planproof.inference import Finding, Phase, Severity, Suppression
from planproof.pipeline import lint
from planproof.proposal import Case
from planproof.report.concise import concise
from planproof.report.lint_json import lint_json
from planproof.report.lint_report import Report, from_examination
from planproof.report.review_json import json_text
from planproof.report.text import text
from report_cases import dense


@dataclass
class Examined:
    case: Case
    facts: Sequence[Fact]
    findings: Sequence[Finding]
    ledgers: dict[str, Any]
    skipped: Sequence[Phase] = ()


def finding(rule: str, path: str, severity: Severity = Severity.WARNING, **changes: Any) -> Finding:
    base = Finding(rule, "Title", severity, Phase.SHAPE, f"message of {rule}", "do it", path, (), False, ())
    return replace(base, **changes)


def report(*findings: Finding, facts: Sequence[Fact] = (), skipped: Sequence[Phase] = ()) -> Report:
    review = dense()
    ledgers = {one.plan.name: one.memory for one in review.candidates if one.path}
    return from_examination(Examined(review.case, facts, findings, ledgers, skipped))


def test_findings_stand_in_the_order_of_their_places_then_of_their_rules() -> None:
    made = report(
        finding("SHP009", "/plans/0"), finding("SHP002", "/plans/0"), finding("ZZZ001", "/workload"), finding("A1", "")
    )
    assert [one.rule_id for one in made.findings] == ["A1", "ZZZ001", "SHP002", "SHP009"]


def test_a_line_of_text_has_place_severity_rule_message_source_caret_and_remedy() -> None:
    made = report(finding("SHP002", "/plans/0/zero", Severity.ERROR), skipped=[Phase.MEMORY])
    source = next(k for k, line in enumerate(made.loaded.document.text.split("\n"), 1) if "role: reference" in line)
    lines = text(made).split("\n")
    place = made.place(made.findings[0])
    assert place.line == source
    assert lines[0] == f"proposals/dense.yaml:{source}:{place.column}: error SHP002 message of SHP002"
    assert lines[1].startswith(f"  {source} |   - {{name: reference")
    caret = lines[2].index("^")
    assert lines[1][caret] == "3"
    assert lines[1][caret - 6 : caret] == "zero: "
    assert lines[3] == "  remedy: do it"
    assert lines[4:] == ["proposals/dense.yaml: 1 error, 0 warnings, 0 notes; not run: memory", ""]


def test_on_a_pass_the_first_line_says_what_memory_is_left_on_the_submitted_plan() -> None:
    fullest = max(
        (one for one in dense().candidates if one.plan.name == "uneven"), key=lambda one: one.id
    ).memory[0]
    first = text(report(finding("A1", ""))).split("\n")[0]
    left = (fullest.capacity_bytes - int(fullest.device.value)) / 2**30
    assert first.startswith("proposals/dense.yaml: plan 'uneven': ")
    assert f"{left:.2f} GiB left on the fullest rank (stage 0, ranks with embedding; estimated" in first


def test_measured_memory_stands_in_place_of_the_estimate() -> None:
    fact = make(
        KINDS, "measured_memory", "/plans/1", plan="uneven", role="submitted", stage=2, first_layer=16, last_layer=24,
        sum_bytes=79 * 2**30, sum_mib=79 * 2**10,
        capacity_mib=80 * 2**10, capacity_bytes=80 * 2**30, excess_bytes=-(2**30), rows=9,
    )  # fmt: skip
    room = report(facts=[fact]).headroom
    assert room is not None
    assert (room.plan, room.stage, room.bytes, room.basis) == ("uneven", 2, 2**30, "measured")


def test_a_file_with_an_error_has_no_headroom_line_and_one_without_a_ledger_says_so() -> None:
    assert "left on the fullest rank" not in text(report(finding("A1", "", Severity.ERROR)))
    bare = from_examination(Examined(dense().case, (), (), {}))
    assert bare.headroom is None
    assert text(bare).split("\n")[0].startswith("proposals/dense.yaml: memory left is not known")


def test_a_suppressed_finding_is_printed_and_counted_apart() -> None:
    by = Suppression("A1", "known \x1b[31m", "ops")
    made = report(finding("A1", "", Severity.ERROR, suppressed=by), finding("B1", ""))
    assert made.passes
    shown = text(made)
    assert "  suppressed: known \\x1b[31m (ops)" in shown
    assert "0 errors, 1 warning, 0 notes, 1 suppressed" in shown
    assert "A1" not in concise(made)
    body = made.to_json()
    assert [one["rule"] for one in body["findings"]] == ["B1"]
    assert body["suppressed"][0]["suppressed"]["owner"] == "ops"


def test_colour_is_there_only_when_it_is_asked_for() -> None:
    made = report(finding("A1", "", Severity.ERROR, message="a\x1b[2Jb\u202e\nc"))
    assert "\x1b[31merror\x1b[0m" in text(made, color=True)
    assert "a\\x1b[2Jb\\u202e c" in text(made)
    assert all(line.isprintable() for line in text(made).split("\n"))


@pytest.mark.parametrize(
    ("title", "column"), [("日本語 " * 20, 11), ("x" * 300, 11), ("\u202eabc \U0001f600", 11), ("é\u0301" * 9, 11)]
)
def test_the_caret_stands_under_its_character_in_wide_and_long_lines(title: str, column: int, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f'planproof: 1\nproposal: {{title: "{title}", authority: run}}\n', encoding="utf-8")
    made = lint([file])[0]
    place = made.loaded.place("/proposal/authority")
    lines = text(replace(made, findings=(finding("A1", "/proposal/authority", Severity.ERROR),))).split("\n")
    assert place.line == 2
    excerpt, caret = lines[1], lines[2]
    before = excerpt[: excerpt.rindex("run")]
    wide = sum(2 if ord(char) > 0x2E80 else 0 if char == "\u0301" else 1 for char in before)
    assert caret.index("^") == wide
    assert len(excerpt) < 160


def test_concise_is_one_line_a_finding() -> None:
    made = report(finding("A1", "/plans/0", message="two\nlines"), finding("B1", ""))
    place = made.loaded.place("/plans/0")
    assert concise(made).split("\n") == [
        "proposals/dense.yaml:1:1: B1 message of B1",
        f"proposals/dense.yaml:{place.line}:{place.column}: A1 two lines",
        "",
    ]


def test_json_has_every_report_and_every_file_that_could_not_be_judged() -> None:
    made = report(finding("A1", "/plans/0", Severity.ERROR))
    error = InputError("bad", place=Place("q.yaml", 3, 7), remedy="fix it")
    body = json.loads(json_text(lint_json([made], [("q.yaml", error)])))
    assert body["schema"] == 1
    assert body["reports"] == [json.loads(json_text(made.to_json()))]
    assert body["reports"][0]["summary"] == {"error": 1, "warning": 0, "note": 0}
    assert body["reports"][0]["passes"] is False
    assert body["errors"] == [
        {"path": "q.yaml", "code": "input", "message": "bad", "line": 3, "column": 7, "remedy": "fix it"}
    ]


def test_the_writers_of_lint_load_nothing_that_lint_must_not() -> None:
    import subprocess
    import sys

    program = (
        "import sys, planproof.report.text, planproof.report.concise, planproof.report.lint_json\n"
        "print([one for one in ('jinja2', 'numpy', 'networkx', 'scipy') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
