"""Every number in every record of the examples can be followed: to a line of a file, a data sheet, a formula, or a choice.

A number of the record is looked up among the numbers of the review's JSON, at the precision and in the unit that it is shown
with. There it stands under a pointer, and that pointer has an origin: a file and a line, a derivation, or the proposal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_desk import EXAMPLES, LONG, Desk
from planproof.report.derivations import derivation_of
from planproof.report.record import render_record
from planproof.report.review_json import review_json

NAMES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.yaml") if path.parent.name != "pull-request")
#: Units as they are shown -> factors to the base unit; a bare number is tried as it is, in GiB, and as a share.
UNITS = {
    "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "days": 86400,
    "h": 3600, "TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "PFLOP/s": 1e15, "TFLOP/s": 1e12, "%": 0.01, "device-hours": 3600,
    "Ttokens": 1e12, "Gtokens": 1e9, "Mtokens": 1e6, "billion": 1e9, "trillion": 1e12, "million": 1e6,
}  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?:\s(TiB|GiB|MiB|KiB|days|device-hours|[TGM]B/s|[PT]FLOP/s|"
                    r"[TGM]tokens|billion|trillion|million|ms|us|ns|s|h|B|%)(?![\w/]))?")  # fmt: skip
#: Pointers of the JSON whose numbers are their own origin: what the proposal says or chooses, places, counts, and evidence.
CHOSEN = re.compile(
    r"/(schema|findings/|candidates/\d+/(plan|roles|id|memory/\d+/(stage|first_rank|in_flight))|evidence/\d+/(value|file_line|line)|"
    r"claims/|not_examined/|.*/(line|column|file_line|stage|rank)$|produced_with|search_space|counter_signals|invariants|"
    r"candidates/\d+/(deciders|simplicity|measured_numbers)|missing_evidence/\d+/(line|column|text)|suppressed|overrides|digests)"
)


def leaves(body: Any, pointer: str = "") -> Iterator[tuple[str, float]]:
    """Every number of the JSON with its pointer."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from leaves(value, f"{pointer}/{key}")
    elif isinstance(body, list):
        for k, value in enumerate(body):
            yield from leaves(value, f"{pointer}/{k}")
    elif isinstance(body, int | float) and not isinstance(body, bool):
        yield pointer, float(body)


def texts(body: Any) -> Iterator[str]:
    """Every text of the JSON."""
    if isinstance(body, dict):
        for value in body.values():
            yield from texts(value)
    elif isinstance(body, list):
        for value in body:
            yield from texts(value)
    elif isinstance(body, str):
        yield body


Made = tuple[str, dict[str, Any], str]
_MADE: dict[str, Made] = {}


def made(desk: Desk, name: str) -> Made:
    """Record, JSON, and every text that the record may quote: proposal, rules, data sheets, template; once an example."""
    if name not in _MADE:
        _MADE[name] = _made(desk, name)
    return _MADE[name]


def _made(desk: Desk, name: str) -> Made:
    path, done = EXAMPLES / name, desk.review(name)
    root = Path(__file__).resolve().parents[2]
    files = [path, root / "templates/record.md.j2"]
    files += [file for folder in ("rules", "engine/hardware") for file in (root / folder).glob("*/*.yaml")]
    files += [root / "engine/report" / f"{name}.py" for name in ("derivations", "ledgers", "record_outlook", "record_plans")]
    others = ("decision/assemble.py", "decision/noise.csv", "search/space.py", "cost/constants.csv")
    files += [root / "engine" / name for name in others]
    quoted = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return render_record(done), json.loads(json.dumps(review_json(done))), "\n".join([*quoted, *_derived(done)])


def _derived(done: Any) -> list[str]:
    """What a record says that follows from values of the JSON by one operation, which the derivations name: run and rates."""
    lines = []
    steps, model = done.case.run_steps, done.case.model
    if model is not None:
        from planproof.model import active_parameters, parameters

        for value in (parameters(model), active_parameters(model)):
            lines += [f"{value} {value:,}", f"DERIVED={value!r}"]
    if done.case.graph is not None:
        lines += [f"DERIVED={float(value)!r}" for value in (done.case.graph.parameters, done.case.graph.forward_flops)]
    lines += [f"DERIVED={value!r}" for value in (done.case.run_tokens, done.case.run_steps) if value]
    for one in done.candidates:
        if one.step is not None and one.priced is not None:
            ends = (one.step.value, one.step.low, one.step.high)
            lines.append(" ".join(f"{one.priced.tokens / end:,.0f}" for end in ends))
            if steps:
                lines += ["DERIVED=" + repr(steps * end) for end in ends]
                lines += ["DERIVED=" + repr(steps * end * one.plan.devices) for end in ends]
            lines += ["DERIVED=" + repr(one.priced.model_flops / one.priced.peak_flops_per_s / end) for end in ends]
            ledger = one.priced.step.ledger
            lines += ["DERIVED=" + repr((ledger.microbatches - 1) * ledger.bottleneck_s)]
            ends = (one.step.high / one.step.value - 1, 1 - one.step.low / one.step.value)
            lines += ["DERIVED=" + repr(end) for end in ends]
        for found in (one.operators.own, one.operators.best) if one.operators is not None else ():
            lines += _by_operator(found, one.plan.accumulation) if found is not None else []
        for memory in one.memory:
            lines += ["DERIVED=" + repr(float(memory.capacity_bytes - memory.device.value))]
    if done.case.sequence_length and done.case.global_batch:
        lines += ["DERIVED=" + repr(float(done.case.sequence_length * done.case.global_batch))]
    if done.trials is not None and done.trials.told_apart is not None:
        lines += ["DERIVED=" + repr(1 / done.trials.told_apart)]
    if done.joint is not None:
        lines += ["DERIVED=" + repr(1 / done.joint.regret)]
    return lines


def _by_operator(found: Any, microbatches: int) -> list[str]:
    """The operators' seconds of a step: copies x (microbatches x what one spends + synchronisation), and how many there are."""
    values = [found.operators, found.kinds]
    for row in found.layouts:
        one = row.spending
        values.append(row.copies * microbatches * (one.forward + one.backward))
        values.append(row.copies * (microbatches * (one.exchanged + one.gathered) + one.sync))
    return [f"DERIVED={float(value)!r}" for value in values]


def shown_as(text: str) -> float:
    """Half a unit in the last place of a number as it is shown."""
    plain = text.replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def body_of(record: str) -> str:
    """The record without front matter, digests and the block to paste; entities and escapes undone."""
    text = record.split("---\n", 2)[2]
    text = re.sub(r"## Digests\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return text.replace("&#8203;", "").replace("\\", "").replace("&lt;", "<").replace("&amp;", "&")


def unexplained(record: str, body: dict[str, Any], quoted: str) -> list[str]:
    numbers = [abs(value) for _, value in leaves(body)] + [abs(float(one)) for one in re.findall(r"DERIVED=(\S+)", quoted)]
    words = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", "\n".join((quoted, *texts(body))))
    said = {one.replace(",", "") for one in words}
    values = sorted(numbers)
    missing = []
    for line in body_of(record).split("\n"):
        for match in NUMBER.finditer(line):
            text, unit = match[1].rstrip(","), match[2]
            plain = text.replace(",", "")
            if plain in said or not re.search(r"[1-9]", plain):
                continue
            factors = [UNITS[unit]] if unit else sorted({1, 0.01, *UNITS.values()})
            if unit in ("s", "ms", "us", "B") or unit is None:
                factors += [2**30]
            value, slack = float(plain), shown_as(text)
            if not any(_near(values, value * factor, (slack + 1e-9 * value) * factor, value) for factor in factors):
                missing.append(f"{match[0]!r} in {line.strip()[:160]!r}")
    return missing


def _near(values: list[float], target: float, slack: float, value: float) -> bool:
    """Whether some number of the JSON rounds to `target`: to the digits shown, and four significant ones at least."""
    from bisect import bisect_left

    at = bisect_left(values, target - max(slack, 6e-4 * target))
    return at < len(values) and values[at] <= target + max(slack, 6e-4 * target)


#: Those whose search takes long are walked in the long run.
of_every_example = pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] if one in LONG else []) for one in NAMES]
)


@of_every_example
def test_every_number_of_the_record_stands_in_the_json_or_is_quoted(desk: Desk, name: str) -> None:
    assert unexplained(*made(desk, name)) == []


@of_every_example
def test_every_number_of_the_json_has_a_line_a_derivation_or_is_a_choice(desk: Desk, name: str) -> None:
    _, body, _ = made(desk, name)
    assert [pointer for pointer, _ in leaves(body) if derivation_of(pointer) is None and CHOSEN.match(pointer) is None] == []
    for one in body["evidence"]:
        assert one["source"] or one["grade"] == "assumed", one
        assert one["file_line"] or one["line"], one


def test_a_number_from_nowhere_is_found(desk: Desk) -> None:
    record, body, quoted = made(desk, "measured/proposal.yaml")
    forged = record.replace("- **Step time**: ", "- **Step time**: 7.7777 s or ", 1)
    assert any("7.7777 s" in one for one in unexplained(forged, body, quoted))


@of_every_example
def test_a_record_is_short_and_its_first_screen_answers(desk: Desk, name: str) -> None:
    record, _, _ = made(desk, name)
    assert record.count("\n") < 400
    screen = "\n".join(record.split("\n")[:30])
    for question in ("**May it run?**", "**What instead?**", "**How sure?**"):
        assert question in screen
