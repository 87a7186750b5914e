"""`planproof diff`: what a change does to verdict, memory, step time and findings, and nothing where nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from click.testing import CliRunner
from planproof.cli.diff import diff
from planproof.decision.review import Review
from planproof.pipeline import Options, review
from planproof.report.difference import Difference, compare, difference_json, difference_text

BASE = (Path(__file__).parent.parent.parent / "examples" / "smallest" / "proposal.yaml").read_text(encoding="utf-8")
#: A space of few plans, so that a review is quick.
SMALL = BASE + "  - {name: other, role: candidate, uniform: {data: 16, tensor: 2}, zero: 3, microbatch: 1, recompute: full}\n"
LIMITS = "layouts: {allow: [data, tensor], microbatch: [1, 2], zero: [2, 3], recompute: [none, full]}"
SMALL = SMALL.replace("layouts: all", LIMITS)
Edit = Callable[[str], str]


@cache
def reviewed(text: str, name: str = "p.yaml") -> Review:
    path = Path(mkdtemp()) / name
    path.write_text(text, encoding="utf-8")
    return review(path, Options(evaluators="reference"))


def found(edit: Edit, before: str = SMALL) -> Difference:
    return compare(reviewed(before), reviewed(edit(before)))


def reference(edit: Edit, before: str = SMALL) -> str:
    """What the text says of the reference plan."""
    return next(block for block in difference_text(found(edit, before)).split("\n\n") if block.startswith("reference:"))


def test_the_base_is_the_one_that_the_edits_are_made_on() -> None:
    assert "layouts: {" in SMALL
    assert "zero: 3, microbatch: 1}" in SMALL


def test_a_change_of_words_order_and_lines_changes_nothing() -> None:
    def edit(text: str) -> str:
        *head, first, second = text.splitlines()
        return "\n".join(["# a comment", *head, second, first]) + "\n"

    made = found(edit)
    assert (made.new, made.gone, made.changed, made.refused) == ((), (), (), False)
    assert made.kept > 3
    assert all(pair.ratio is not None and pair.ratio.low == pair.ratio.high == 1 for pair in made.pairs)
    assert {pair.label for pair in made.pairs} == {"reference", "recommended", "candidate"}
    assert difference_text(made).count("as before") == len(made.pairs) + 1


def test_a_larger_microbatch_moves_memory_and_the_row_that_holds_it() -> None:
    text = reference(lambda text: text.replace("zero: 3, microbatch: 1}", "zero: 3, microbatch: 2}"))
    assert "GiB less left" in text
    rows = [line.strip().partition(":")[0] for line in text.splitlines() if line.startswith("    ")]
    assert "in-flight activations" in rows


def test_a_ratio_is_under_common_draws_only_where_what_is_trained_on_what_stays_the_same() -> None:
    plans = {
        pair.label: pair for pair in found(lambda text: text.replace("zero: 3, microbatch: 1}", "zero: 3, microbatch: 2}")).pairs
    }
    other = {pair.label: pair for pair in found(lambda text: text.replace("400 Gbit/s", "200 Gbit/s")).pairs}
    for pair, common in ((plans["reference"], True), (other["reference"], False)):
        assert pair.ratio is not None
        assert pair.before is not None
        assert pair.after is not None
        assert pair.before.step is not None
        assert pair.after.step is not None
        widest = (pair.after.step.low / pair.before.step.high, pair.after.step.high / pair.before.step.low)
        assert ((pair.ratio.low, pair.ratio.high) == widest) is not common
        assert pair.ratio.low <= pair.ratio.value <= pair.ratio.high
    assert other["reference"].ratio is not None
    assert other["reference"].ratio.value > 1


def test_the_same_cluster_written_on_other_lines_is_the_same_cluster() -> None:
    made = found(lambda text: "# one\n# two\n" + text.replace("zero: 3, microbatch: 1}", "zero: 2, microbatch: 1}"))
    pair = next(pair for pair in made.pairs if pair.label == "reference")
    assert pair.ratio is not None
    assert pair.before is not None
    assert pair.after is not None
    assert pair.before.step is not None
    assert pair.after.step is not None
    assert pair.ratio.high < pair.after.step.high / pair.before.step.low


def test_a_change_that_takes_evidence_away_is_what_refuses_it() -> None:
    made = found(lambda text: text.replace("  contention: none\n", ""))
    assert made.refused
    assert "EVI015" in {one.rule_id for one in made.new}
    assert made.new[0].severity.value == "error"
    text = difference_text(made)
    assert "verdict: CONDITIONAL -> REFUSED of evidence" in text
    assert "-> not known" in text
    back = compare(made.after, made.before)
    assert not back.refused
    assert "EVI015" in {one.rule_id for one in back.gone}


def test_a_finding_that_says_something_else_is_changed_and_neither_new_nor_gone() -> None:
    def edit(text: str) -> str:
        return text.replace("count: 4", "count: 8").replace("data: 32", "data: 64").replace("data: 16", "data: 32")

    made = found(edit)
    changed = {now.rule_id: (was.message, now.message) for was, now in made.changed}
    assert any("32 devices" in was and "64 devices" in now for was, now in changed.values())
    assert not set(changed) & {one.rule_id for one in (*made.new, *made.gone)}


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    text = difference_text(found(lambda text: text.replace("name: other", 'name: "o\\u202e\\u200b"')))
    assert all(line.isprintable() for line in text.splitlines())


def test_json_has_both_sides_the_plans_and_the_findings() -> None:
    made = found(lambda text: text.replace("  contention: none\n", ""))
    body = json.loads(json.dumps(difference_json(made), allow_nan=False))
    assert (body["before"]["verdict"], body["after"]["verdict"]) == ("CONDITIONAL", "REFUSED")
    assert body["refused_by_the_change"] is True
    assert [pair["label"] for pair in body["plans"]] == [pair.label for pair in made.pairs]
    assert body["plans"][0]["step_time_ratio"] is None
    assert "EVI015" in {one["rule"] for one in body["findings"]["new"]}
    assert body["findings"]["kept"] == made.kept


@pytest.mark.parametrize(
    ("edit", "options", "status"),
    [
        (lambda text: text, (), 0),
        (lambda text: text.replace("  contention: none\n", ""), (), 1),
        (lambda text: text.replace("  contention: none\n", ""), ("--fail-on", "never"), 0),
    ],
)
def test_the_exit_status_follows_from_what_the_change_brings(
    edit: Edit, options: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    for name, text in (("old.yaml", SMALL), ("new.yaml", edit(SMALL))):
        (tmp_path / name).write_text(text, encoding="utf-8")
    arguments = [str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), *options]
    done = CliRunner().invoke(diff, arguments, standalone_mode=False, catch_exceptions=False)
    assert done.return_value == status
    assert done.output.splitlines()[1].startswith("verdict: CONDITIONAL -> ")
