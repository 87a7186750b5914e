"""A baseline: known findings stay visible and do not fail a run, new ones do; it shrinks, and never grows by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.errors import UsageError
from planproof.inference import Severity, Suppression
from planproof.pipeline import Options, lint
from planproof.report.baseline import (
    Baseline,
    Known,
    against,
    baseline_text,
    gone,
    gone_text,
    knowable,
    parse_baseline,
    read_baseline,
    without,
    write_baseline,
)
from planproof.report.lint_report import Report, Terms
from planproof.report.text import text
from report_cases import DENSE

NAME = "plans/p.yaml"


def linted(folder: Path, proposal: str = DENSE) -> Report:
    path = folder / "p.yaml"
    path.write_text(proposal, encoding="utf-8")
    (report,) = lint([path], Options(evaluators="reference"))
    return report


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return linted(tmp_path)


def test_known_findings_stay_and_only_new_ones_count(report: Report) -> None:
    baseline = Baseline(knowable(report, NAME)[1:])
    marked = against(report, NAME, baseline)
    assert marked.findings == report.findings
    assert len(marked.known) == len(report.standing) - 1
    assert [one.rule_id for one in marked.counted] == [knowable(report, NAME)[0].rule]
    assert f"({len(marked.known)} of them known)" in text(marked)
    assert text(marked).count("  known: the baseline has it") == len(marked.known)
    assert sum(body.get("known", False) for body in marked.to_json()["findings"]) == len(marked.known)
    assert not any("known" in body for body in report.to_json()["findings"])


def test_a_finding_is_known_again_where_lines_moved_and_plans_changed_places(tmp_path: Path, report: Report) -> None:
    baseline = Baseline(knowable(report, NAME))
    head, plans = DENSE.split("plans:\n")
    first, _, rest = plans.partition("\n")
    second, _, tail = rest.partition("claims:")
    moved = linted(tmp_path, f"# one line more\n{head}plans:\n{second}{first}\nclaims:{tail}")
    assert against(moved, NAME, baseline).counted == ()
    assert gone(baseline, knowable(moved, NAME), [NAME]) == ()


def test_another_file_and_another_finding_are_new(tmp_path: Path, report: Report) -> None:
    baseline = Baseline(knowable(report, NAME))
    assert len(against(report, "plans/q.yaml", baseline).counted) == len(report.standing)
    worse = linted(tmp_path, DENSE.replace("  contention: none\n", ""))
    assert [one.rule_id for one in against(worse, NAME, baseline).counted] == ["EVI015"]


def test_suppressed_findings_and_those_of_mandatory_rules_are_never_known(report: Report) -> None:
    baseline = Baseline(knowable(report, NAME))
    rule = report.findings[0].rule_id
    held = replace(report, terms=Terms(mandatory=frozenset({rule})))
    assert rule in {one.rule_id for one in against(held, NAME, baseline).counted}
    assert rule not in {one.rule for one in knowable(held, NAME)}
    by = Suppression(rule, "r", "o")
    quiet = replace(report, findings=tuple(replace(one, suppressed=by) for one in report.findings))
    assert (knowable(quiet, NAME), against(quiet, NAME, baseline).known) == ((), frozenset())


def test_what_is_gone_is_told_and_taken_out(tmp_path: Path, report: Report) -> None:
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_text("")
    found = knowable(report, NAME)
    old = Known(NAME, "SHP001", "/plans/0", "0" * 32)
    other = Known("plans/unchecked.yaml", "SHP001", "/plans/0", "1" * 32)
    deleted = Known("plans/deleted.yaml", "SHP001", "/plans/0", "2" * 32)
    (tmp_path / other.path).write_text("")
    baseline = Baseline((*found, old, other, deleted))
    assert gone(baseline, found, [NAME]) == (old,)
    lost = gone(baseline, found, [NAME], tmp_path)
    assert lost == (old, deleted)
    assert without(baseline, lost).findings == (*found, other)
    assert gone_text(lost).splitlines()[0] == f"{NAME}: SHP001 at /plans/0 is gone and still in the baseline"
    assert gone_text(()) == ""
    # A file that could not be judged is not among the checked ones, and keeps what it has.
    assert gone(baseline, (), []) == ()


ROWS = st.builds(Known, *[st.text(max_size=8)] * 4)


@given(st.lists(ROWS, max_size=6))
def test_a_baseline_is_read_as_it_was_written_whatever_the_order(rows: list[Known]) -> None:
    written = baseline_text(rows)
    assert written == baseline_text(reversed(rows))
    assert json.loads(written)["planproof_baseline"] == 1
    assert parse_baseline(written.encode(), "b.json").findings == tuple(sorted(set(rows)))


def test_it_is_written_whole_and_read_back(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "baseline.json"
    assert write_baseline(path, knowable(report, NAME)) == len(report.standing)
    assert read_baseline(path).findings == tuple(sorted(knowable(report, NAME)))
    assert len(path.read_text().splitlines()) == len(report.standing) + 2
    with pytest.raises(UsageError, match="cannot be written"):
        write_baseline(tmp_path / "no" / "b.json", ())


GOOD = {"planproof_baseline": 1, "findings": []}
ROW = {"path": "p", "rule": "r", "pointer": "/", "fingerprint": "f"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no baseline: the key 'planproof_baseline' is missing"),
        (b"{}", "no baseline"),
        ({"planproof_baseline": 2, "findings": [], "more": 1}, "of version '2', and this release reads version 1"),
        ({"planproof_baseline": "1", "findings": []}, "of version '1'|of version"),
        ({"planproof_baseline": True, "findings": []}, "of version 'True'"),
        ({"planproof_baseline": 1}, "the keys"),
        (GOOD | {"findings": {}}, "a list"),
        (GOOD | {"more": 1}, "no others"),
        (GOOD | {"findings": [ROW, 3]}, "finding 2"),
        (GOOD | {"findings": [ROW | {"path": 3}]}, "finding 1"),
        (GOOD | {"findings": [ROW | {"more": "x"}]}, "finding 1"),
    ],
)
def test_a_baseline_that_is_damaged_or_of_another_version_is_refused(tmp_path: Path, body: Any, words: str) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    with pytest.raises(UsageError, match=words) as caught:
        read_baseline(path)
    assert (caught.value.code, caught.value.exit_status) == ("usage.baseline", 2)
    assert "--write-baseline" in (caught.value.remedy or "")
    assert caught.value.place.file == str(path)


def test_a_baseline_that_is_missing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_baseline(path)


def severities(report: Report) -> Sequence[Severity]:
    return [one.severity for one in report.counted]


def test_what_counts_without_a_baseline_is_what_stands(report: Report) -> None:
    assert severities(report) == [one.severity for one in report.standing]
