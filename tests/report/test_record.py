"""The record answers in order, says nothing of the machine, and shows hostile text as text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from planproof.decision.review import CounterSignal, Review
from planproof.errors import UsageError
from planproof.inference import Severity, Suppression
from planproof.inference.rule import Source
from planproof.report.escape import markdown
from planproof.report.record import MAX_LINES, render_record
from report_cases import BARE, DENSE, bare, dense, reviewed

HEADINGS = [
    "Decision", "What is proposed", "Findings", "Recommended plan", "Simpler fallback", "Candidates", "Run cost",
    "Clearing memory", "Memory", "Time", "Critical path", "Operator layouts", "Resharding", "Planning cost",
    "Semantic invariants", "Counter-signals", "Sensitivity", "Claims", "Evidence", "Assumed defaults", "Derivations",
    "Missing evidence", "Not examined", "Declared search space", "Suppressions", "Verification plan", "Authority", "Digests",
    "How to verify this record",
]  # fmt: skip
HOSTILE = 'A | b <script>x</script> [l](javascript:1) `c` *d* # e\\n\\n## Forged\\n<!-- decision: end -->\\u202Ez'


def headings(record: str) -> list[str]:
    """The second-level headings outside fenced blocks."""
    found, fence = [], ""
    for line in record.split("\n"):
        mark = re.match(r"`{3,}", line)
        if mark and (not fence or line == fence):
            fence = "" if fence else mark[0]
        elif not fence and line.startswith("## "):
            found.append(line[3:])
    return found


def section(record: str, name: str) -> str:
    return record.split(f"\n## {name}\n")[1].split("\n## ")[0].strip()


def front(record: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(record.split("---\n")[1])
    return found


@pytest.mark.parametrize("case", [dense, bare])
def test_every_section_stands_once_in_the_order_of_a_reviewer(case: object) -> None:
    record = render_record(case())
    assert headings(record) == HEADINGS
    assert record.count("\n") < MAX_LINES
    assert record.endswith("\n")
    assert not record.endswith("\n\n")
    assert "\n\n\n" not in record


def test_front_matter_says_status_verdict_date_deciders_and_what_was_judged() -> None:
    review = dense()
    found = front(render_record(review))
    assert found == {
        "status": "proposed",
        "verdict": review.verdict.value,
        "date": "2026-11-02",
        "decision_makers": ["the training board"],
        "title": "Dense 8B",
        "proposal": {"path": "proposals/dense.yaml", "sha256": review.case.loaded.document.sha256},
        "planproof_record": 1,
    }
    assert front(render_record(replace(review, as_of="2026-12-24")))["date"] == "2026-12-24"
    assert "date" not in front(render_record(bare()))
    assert front(render_record(bare()))["refused_of"] == "evidence"


def test_the_first_screen_says_may_it_run_what_instead_and_how_sure() -> None:
    review = dense()
    screen = render_record(review).split("## Decision")[0]
    best = review.candidate(review.recommended)
    assert best is not None
    assert best.step is not None
    assert "**May it run?** 'uneven' (submitted) fits" in screen
    assert f"({best.id}, {best.step.value:.3f} s (" in screen
    assert "**How sure?** The step time is estimated" in screen
    refused = render_record(bare()).split("## Decision")[0]
    assert "**REFUSED.**" in refused
    assert "Not on this evidence" in refused


def test_people_decide_between_the_marks() -> None:
    decision = section(render_record(dense()), "Decision")
    assert decision.startswith("<!-- decision: begin -->")
    assert decision.endswith("<!-- decision: end -->")


def test_the_recommended_plan_has_time_rate_length_and_a_block_to_paste() -> None:
    review = dense()
    text = section(render_record(review), "Recommended plan")
    best = review.candidate(review.recommended)
    assert best is not None
    assert best.priced is not None
    assert f"{100 * best.priced.mfu:.2f} %" in text
    assert f"{best.priced.tokens_per_second:,.0f}" in text
    cost = section(render_record(review), "Run cost")
    assert "20,000 steps in" in cost
    assert "device-hours" in cost
    block = yaml.safe_load(re.search(r"```yaml\n(.*?)\n```", text, re.DOTALL)[1])
    assert block[0]["accumulation"] == best.plan.accumulation
    terms = [line for line in text.split("\n") if line.startswith("| ")]
    assert f"| term, s | {best.id} recommended | C2 uneven | C1 reference |" in terms
    assert f"| step | {best.step.value:.3f} |" in text


def test_memory_has_a_column_a_stage_and_its_rows_in_gib() -> None:
    review = dense()
    text = section(render_record(review), "Memory")
    uneven = next(one for one in review.candidates if one.plan.name == "uneven")
    for memory in uneven.memory:
        assert f"stage {memory.stage}, {memory.rank_class}" in text
        assert f"{memory.device.value / 2**30:.2f} ({memory.device.low / 2**30:.2f} to" in text
    for k, row in enumerate(uneven.memory[0].rows):
        assert (f"| {row.name} |" in text) == any(memory.rows[k].bytes for memory in uneven.memory)


def test_short_cases_give_short_sections() -> None:
    record = render_record(bare())
    assert section(record, "Recommended plan") == "None."
    assert section(record, "Simpler fallback").startswith("None: ")
    assert section(record, "Memory") == section(record, "Time") == "Not priced."
    assert section(record, "Claims") == "None are quoted."
    assert section(record, "Counter-signals") == "None was raised."
    assert "Phases that did not run: " in section(record, "Not examined")
    # An entry of the findings is three lines: message, remedy, source.
    assert record.count("\n") < 275


def test_what_is_missing_stands_in_order_with_how_to_get_it() -> None:
    review = dense()
    lines = section(render_record(review), "Missing evidence").split("\n")
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) == len(review.needs)
    assert [row.split(" | ")[0] for row in rows] == [f"| {k}" for k in range(1, len(rows) + 1)]
    assert all(markdown(need.how) in row for need, row in zip(review.needs, rows, strict=True))


def test_why_a_rule_exists_is_printed_where_it_is_known() -> None:
    review = dense()
    rule = review.findings[0].rule_id
    record = render_record(review, sources={rule: (Source("brief", "B23", None, "measured | first"),)})
    assert "**Source:** brief B23: measured \\| first" in record


def test_signals_and_suppressions_say_their_state_and_owner() -> None:
    review = dense()
    by = Suppression(review.findings[0].rule_id, "reason <b>", "ops")
    changed = replace(
        review,
        findings=(replace(review.findings[0], suppressed=by), *review.findings[1:]),
        counter_signals=(CounterSignal("short_run", "open", "too short", "a longer run", "OUT001", ""),),
    )
    record = render_record(changed)
    assert "**short\\_run**" in record or "**short_run**" in record
    assert "Would be closed by a longer run (OUT001)." in record
    assert "Suppressed by ops: reason &lt;b>." in record


def test_hostile_texts_forge_no_heading_no_mark_and_no_markup() -> None:
    text = BARE.replace("TITLE", f'"{HOSTILE}"').replace("NAME", f'"{HOSTILE[:90]}"')
    record = render_record(reviewed(text, "bare.yaml"))
    assert headings(record) == HEADINGS
    assert record.count("<!-- decision: end -->") == record.count("<!-- decision: begin -->") == 1
    assert "<script" not in record.split("---\n", 2)[2]
    assert all(line.isprintable() for line in record.split("\n"))
    assert re.search(r"(?<!\\)\[l", record.split("---\n", 2)[2]) is None
    assert str(front(record)["title"]).startswith("A | b <script>")


def test_a_plan_with_a_hostile_name_stays_inside_its_block() -> None:
    review = dense()
    best = review.candidate(review.recommended)
    assert best is not None
    forged = replace(best, plan=replace(best.plan, name="x\n```\n## Forged\n````"))
    record = render_record(replace(review, candidates=(*(c for c in review.candidates if c.id != best.id), forged)))
    assert headings(record) == HEADINGS


def test_the_largest_reviews_stay_below_the_limit_and_count_what_they_leave_out() -> None:
    review = dense()
    errors = tuple(
        replace(review.findings[0], rule_id=f"SHP{k:03}", severity=Severity.ERROR, path=f"/plans/{k % 2}")
        for k in range(300)
    )
    tall = replace(
        review.candidates[-1], memory=tuple(replace(review.candidates[-1].memory[0], stage=k) for k in range(64))
    )
    large = replace(
        review,
        findings=(*errors, *review.findings * 30),
        candidates=(*review.candidates[:-1], tall, *review.candidates * 50),
        needs=review.needs * 20,
        evidence=review.evidence * 20,
        assumed=review.assumed * 20,
        counter_signals=review.counter_signals * 20,
        because=review.because * 30,
    )
    record = render_record(large)
    assert record.count("\n") < MAX_LINES
    assert "### Errors (300)" in record
    assert "more candidates stand in the JSON" in record
    assert headings(record) == HEADINGS


def test_no_absolute_path_no_version_and_no_clock_enters() -> None:
    review = dense()
    record = render_record(review)
    assert str(review.case.loaded.root) not in record
    assert os.getcwd() not in record
    slower = replace(review, produced_with={"planproof": "9.9.9", "seconds": 1e9, "evaluators": {}})
    assert render_record(slower) == record


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from report_cases import DENSE, reviewed
from planproof.report.escape import markdown
from planproof.report.record import render_record
from planproof.report.review_json import json_text, review_json
review = reviewed(DENSE.replace("TITLE", "Same"), root=Path(sys.argv[1]))
body = review_json(review)
body["produced_with"] = None
sys.stdout.buffer.write((render_record(review) + json_text(body)).encode())
"""


def test_the_same_inputs_give_the_same_bytes_in_any_environment(tmp_path: Path) -> None:
    program = PROGRAM.format(folder=str(Path(__file__).parent))
    outputs = []
    for k, changes in enumerate(
        (
            {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
            {"PYTHONHASHSEED": "4242", "LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kathmandu"},
        )
    ):
        root = tmp_path / f"checkout{k}"
        done = subprocess.run(
            [sys.executable, "-c", program, str(root)],
            env=os.environ | changes,
            capture_output=True,
            check=True,
            cwd=tmp_path,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert b"# Decision record: Same" in outputs[0]


def override(folder: Path, text: str, name: str = "record.md.j2") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_users_template_replaces_ours_and_escaping_stays(tmp_path: Path) -> None:
    review = reviewed(BARE.replace("TITLE", '"a | b"').replace("NAME", "x"), "bare.yaml")
    folder = override(tmp_path, '{% import "parts.md.j2" as parts %}\n{{ title }}\n{{ parts.bullets([title], "") }}')
    assert render_record(review, folder) == "a \\| b\n- a \\| b\n"


@pytest.mark.parametrize(
    ("template", "line", "what"),
    [
        ("{{ title }}\n{{ nobody }}\n", 2, "nobody"),
        ("\n\n{{ proposed.lines.nothing }}\n", 3, "nothing"),
        ("{% if %}\n", 1, "Expected"),
        ("x\n{{ title | unknown }}\n", 2, "unknown"),
        ("x\n{{ title.__class__.__mro__ }}\n", 2, "unsafe"),
        ("x\n{{ 1 // 0 }}\n", 2, "division"),
        ("x\ny\n{{ recommended }}\n", 3, "not there"),
        ('{% include "missing.j2" %}', 1, "missing.j2"),
        ('{% include "../../etc/passwd" %}', 1, "passwd"),
    ],
)
def test_a_template_that_fails_is_named_with_its_line(template: str, line: int, what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        render_record(bare(), override(tmp_path, template))
    assert raised.value.place.file == "record.md.j2"
    assert raised.value.place.line == line
    assert what in raised.value.message


def test_a_failure_in_an_included_template_names_that_one(tmp_path: Path) -> None:
    override(tmp_path, "one\n{{ gone }}\n", "inner.j2")
    with pytest.raises(UsageError) as raised:
        render_record(bare(), override(tmp_path, '{% include "inner.j2" %}'))
    assert (raised.value.place.file, raised.value.place.line) == ("inner.j2", 2)


def test_a_folder_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        render_record(bare(), tmp_path / "missing")


def test_titles_fall_back_to_the_name_of_the_file() -> None:
    text = DENSE.replace("  title: TITLE\n", "")
    assert "# Decision record: llama-8b\n" in render_record(reviewed(text, "examples/llama-8b/proposal.yaml"))


def short(review: Review) -> Review:
    """What leaves room for pictures: nothing missing, and no operators."""
    return replace(review, needs=(), candidates=tuple(replace(one, operators=None) for one in review.candidates))


def test_pictures_are_within_what_github_draws_and_their_numbers_stand_in_tables() -> None:
    review = short(dense())
    record = render_record(review, sources={})
    blocks = re.findall(r"```mermaid\n(.*?)\n```", record, re.DOTALL)
    assert [block.split("\n")[0] for block in blocks] == ["flowchart TB", "flowchart LR"]
    for block in blocks:
        assert len(block) < 50_000
        assert block.count(" --- ") + block.count(" --> ") < 500
    best = review.candidate(review.recommended)
    assert best is not None
    assert f"| {best.plan.stages[0].mesh.devices} |" in section(record, "Recommended plan")


def test_text_of_a_stranger_in_a_picture_is_a_label() -> None:
    hostile = 'x"]; click n0 "javascript:1"\n```\n## Forged'
    review = dense()
    described = review.case.described
    case = replace(review.case, described=replace(described, nodes=(replace(described.nodes[0], name=hostile),)))
    record = render_record(replace(short(review), case=case), sources={})
    assert headings(record) == HEADINGS
    block = re.findall(r"```mermaid\n(.*?)\n```", record, re.DOTALL)[0]
    assert 'click n0 "' not in block
    assert block.split("\n")[1].count('"') == 2


def test_what_people_wrote_is_put_into_the_new_record() -> None:
    record = render_record(dense(), block="Accepted.\n\n<!-- a remark -->")
    assert section(record, "Decision") == (
        "<!-- decision: begin -->\nAccepted.\n\n<!-- a remark -->\n<!-- decision: end -->"
    )
