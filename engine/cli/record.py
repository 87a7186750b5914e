"""`planproof record verify | compare | list`: decision records held against a new review, against measurements, and listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..decision.review import Review
    from ..report.record_file import RecordFile


@click.group()
def record() -> None:
    """Decision records: verify them, compare them with a measured run, or list a folder of them."""


_root = click.option(
    "--root", type=click.Path(exists=True, file_okay=False),
    help="The folder that the record's proposal path starts from. Default: the nearest folder above the record that has it.",
)  # fmt: skip
_templates = click.option(
    "--templates", type=click.Path(exists=True, file_okay=False), help="The templates that the record was made with."
)


def _moved(command: Callable[..., int]) -> Callable[..., int]:
    """Options that say where what the record was made with is now."""
    kinds = (
        ("--config", False, "configuration"), ("--rules", True, "folder of rules"), ("--hardware", True, "folder of data sheets"),
    )  # fmt: skip
    for name, many, what in kinds:
        command = click.option(
            name, multiple=many, type=click.Path(exists=True),
            help=f"Where the {what} that the record was made with is now, if it moved.",
        )(command)  # fmt: skip
    return command


@dataclass(frozen=True, slots=True)
class Where:
    """Where what a record names is now, as far as the command line says: roots, folders and files."""

    root: str | None = None
    hardware: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    config: str | None = None


def _again(found: RecordFile, now: Where) -> tuple[Review, str | None]:
    """The review that the record names, made again; the templates of its configuration."""
    from datetime import date

    from ..config import ISOLATED
    from ..errors import Place, UsageError
    from ..pipeline import Options, review_loaded, session
    from ..proposal import load_proposal
    from ..report.record_file import base_of, find_named, find_proposal

    path = find_proposal(found, now.root)
    base = base_of(found, path)
    configs = find_named(found, "config", base, (now.config,) if now.config is not None else ())
    hardware, rules = find_named(found, "hardware", base, now.hardware), find_named(found, "rules", base, now.rules)
    values: dict[str, list[str]] = {}
    for name, value in found.options:
        values.setdefault(name, []).append(value)
    try:
        options = Options(
            as_of=date.fromisoformat(values["as-of"][-1]) if "as-of" in values else None,
            hardware=hardware,
            rules=rules,
            work_limit=int(values["work-limit"][-1]) if "work-limit" in values else None,
            time_limit=float(values["time-limit"][-1]) if "time-limit" in values else None,
            settings=ISOLATED if "isolated" in values else None,
            config=configs[-1] if configs else None,
        )
    except ValueError as error:
        raise UsageError(f"an option of the front matter has a wrong value: {error}", place=Place(found.name)) from None
    with session(options, path) as opened:
        opened.gate.start()
        return review_loaded(load_proposal(path), opened), opened.settings.templates


@record.command("verify")
@click.argument("records", nargs=-1, required=True, type=click.Path())
@_root
@_moved
@_templates
def verify(records: tuple[str, ...], templates: str | None, **moved: Any) -> int:
    """Review the inputs of each RECORD again and compare byte by byte, the block for people left out.

    No number is read from the record. Where it differs, what changed (an input, the rules, the release) and what that does to the
    verdict is said, and the exit status is 1; 2 where a record or its proposal cannot be read.
    """
    from pathlib import Path

    from ..errors import PlanproofError
    from ..report.escape import terminal

    worst = 0
    for name in records:
        try:
            lines = _verified(Path(name), Where(**moved), templates)
        except PlanproofError as error:
            if len(records) == 1:
                raise
            click.echo(terminal(f"{name}: error: {error}"), err=True)
            worst = 2
            continue
        click.echo(terminal(f"{name}: {'verified' if not lines else 'does NOT verify'}"))
        for line in lines:
            click.echo(terminal(f"  {line}"))
        if lines:
            worst = max(worst, 1)
    return worst


def _verified(path: Path, now: Where, templates: str | None) -> list[str]:
    from ..report.record_file import differences, read_record

    found = read_record(path)
    done, text = _rendered(found, now, templates)
    return differences(found, text, dict(done.digests))


def _rendered(found: RecordFile, now: Where, templates: str | None) -> tuple[Review, str]:
    from pathlib import Path

    from ..report.record import render_record

    done, configured = _again(found, now)
    chosen = templates or configured
    return done, render_record(done, Path(chosen) if chosen else None)


@record.command("compare")
@click.argument("record_file", metavar="RECORD", type=click.Path())
@click.argument("measured", type=click.Path())
@click.option("--plan", "plan", metavar="ID", help="The candidate that ran, by id or name. Default: the recommended one.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Text, or JSON."
)
@click.option("--rows", type=click.Path(dir_okay=False), help="Write the run there as a CSV row that 'calibrate' takes.")
@_root
@_moved
def compare_command(record_file: str, measured: str, plan: str | None, format_: str, rows: str | None, **moved: Any) -> int:
    """Hold the predictions of RECORD against the run MEASURED: which hold, why not, and whether the decision stands.

    MEASURED is a log of Megatron-LM, torchtitan or DeepSpeed, or a CSV or JSON table with one row a step or rank and the columns
    step, rank, stage, step_time_s (or _ms), exposed_s, allocated_gib, reserved_gib, device_gib (or _mib, _bytes). The predictions
    are computed again from the record's inputs. Exit status 1 where a threshold of the verification plan is passed.
    """
    from pathlib import Path

    from ..decision.comparison import compare
    from ..errors import DataError, Place, UsageError
    from ..importers.run_log import read_run_log
    from ..report.comparison_text import calibration_csv, calibration_row, comparison_json, comparison_text
    from ..report.escape import terminal
    from ..report.record_file import differences, read_record
    from ..report.review_json import json_text

    found = read_record(Path(record_file))
    try:
        raw = Path(measured).read_bytes()
    except OSError as error:
        raise DataError(f"the measured run cannot be read: {error.strerror}", place=Place(measured)) from None
    log = read_run_log(raw, measured)
    done, text = _rendered(found, Where(**moved), None)
    if differences(found, text, dict(done.digests)):
        click.echo("note: the record does not verify; the predictions are those of its inputs as they are now.", err=True)
    wanted = plan or log.plan or done.recommended
    chosen = next((one for one in done.candidates if wanted in (one.id, one.plan.name)), None)
    if chosen is None or chosen.priced is None:
        known = ", ".join(f"{one.id} ({one.plan.name})" for one in done.candidates if one.priced is not None)
        raise UsageError(f"there is no priced plan '{wanted}' in this review", remedy=f"Plans: {known or 'none'}.")
    result = compare(done, chosen, log)
    if rows is not None:
        from ..report.output import write_whole

        write_whole(Path(rows), calibration_csv(calibration_row(done, result, Path(measured).name)))
    if format_ == "json":
        click.echo(json_text(comparison_json(done, result)), nl=False)
    else:
        click.echo(terminal(comparison_text(done, result)), nl=False)
    return 0 if result.rows and result.stands else 1


@record.command("list")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Text, or JSON."
)
@_root
@click.option(
    "--hardware", multiple=True, type=click.Path(exists=True, file_okay=False),
    help="Where folders of data sheets are that records were made with and that lie outside their repository.",
)  # fmt: skip
def list_records(folder: str, format_: str, root: str | None, hardware: tuple[str, ...]) -> int:
    """List the records under FOLDER: date, verdict, plan, valid or stale, superseded by. Exit status 1 where one is stale.

    Valid: the proposal and every other file that the record names still has the digest that it names; `record verify` is
    stronger."""
    from pathlib import Path

    from ..errors import PlanproofError
    from ..report.escape import terminal
    from ..report.record_file import is_record, read_record
    from ..report.record_list import listed, rows_text
    from ..report.review_json import json_text

    found, broken = [], []
    for path in sorted(Path(folder).rglob("*.md")):
        if not is_record(path):
            continue
        try:
            found.append(read_record(path))
        except PlanproofError as error:
            broken.append((str(path), str(error)))
    rows = listed(found, root, Path(folder), hardware)
    if format_ == "json":
        click.echo(json_text([row | {"error": None} for row in rows] + [{"record": p, "error": e} for p, e in broken]), nl=False)
    elif rows:
        click.echo(terminal(rows_text(rows)))
    else:
        click.echo(f"no records under {terminal(folder)}")
    for _, message in broken:
        click.echo(terminal(f"error: {message}"), err=True)
    if broken:
        return 2
    return 1 if any(row["state"] != "valid" for row in rows) else 0


__all__: list[Any] = ["record"]
