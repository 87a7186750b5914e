"""`planproof lint PATH...`: findings without a search, file by file, in every format that is asked for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..frozen import dataclass
from .main import options_of, shared_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..files import Discovery, Found
    from ..report.baseline import Baseline, Known
    from ..report.formats import Unjudged
    from .lint_work import Done, Work

STANDARD_INPUT: Final = "-"
#: What standard input is called where nobody says.
UNNAMED: Final = "<stdin>"
#: A run shows how far it is once it has taken this long.
_LONG: Final = 1.0
#: What the summary of one step may hold on GitHub; beyond it nothing is shown at all.
_SUMMARY: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    """A format and the file that it goes to; None is standard output."""

    format: str
    file: str | None = None


class OutputType(click.ParamType[Output]):
    """`NAME` or `NAME=FILE`."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        """Split it and look the name up."""
        from ..report.formats import FORMATS

        if isinstance(value, Output):
            return value
        name, equals, file = str(value).partition("=")
        if name not in FORMATS:
            import difflib

            near = difflib.get_close_matches(name, FORMATS, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            self.fail(f"there is no format '{name}'{hint}; formats are {', '.join(FORMATS)}", param, ctx)
        if equals and not file:
            self.fail(f"'{value}' names no file after the '='", param, ctx)
        return Output(name, None if file in ("", STANDARD_INPUT) else file)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names of the formats."""
        from click.shell_completion import CompletionItem

        from ..report.formats import FORMATS

        return [CompletionItem(name, help=text) for name, text in FORMATS.items() if name.startswith(incomplete)]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--stdin-filename", metavar="NAME", help="What standard input ('-') is called, and where it would stand.")
@click.option(
    "--diff", "base", metavar="BASE",
    help="Check only what the git checkout has changed since BASE, and take the configuration from BASE.",
)
@click.option("--only-proposals", is_flag=True, help="Pass over named files that are no proposals, or ignored; for hooks.")
@click.option(
    "--require-evidence", is_flag=True,
    help="Hold a launch file on its own to all the evidence of a proposal; else what it lacks is one note.",
)
@click.option("--allow-empty", is_flag=True, help="Finding no proposal is no error.")
@click.option(
    "--format", "outputs", metavar="NAME[=FILE]", multiple=True, type=OutputType(), default=("text",), show_default=True,
    help="text, concise, json, sarif, github, gitlab, junit, rdjson or markdown; to FILE, or for one of them to standard output.",
)
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="Colours in text; auto is on a terminal, unless NO_COLOR is set, and where FORCE_COLOR is.",
)
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note", "never"]),
    help="End with 1 where a finding is this severe. Default: what the configuration says, else error.",
)
@click.option("--baseline", metavar="FILE", type=click.Path(dir_okay=False), help="Findings that are known: shown, no failure.")
@click.option("--write-baseline", metavar="FILE", type=click.Path(dir_okay=False), help="Write what was found as a baseline.")
@click.option("--update-baseline", is_flag=True, help="Take what is gone out of the file of --baseline.")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 64), help="Processes at work. Default: 2, or 1 on one core.")
@shared_options(search=False)
def lint(paths: tuple[str, ...], **values: Any) -> int:
    """Check proposals and launch files: intake, evidence, shapes, mapping, memory, schedule and claims.

    There is no search and no price in time, so this is quick; 'planproof review' has both.

    PATH is a file, a folder, a glob in quotes, or '-' for standard input. A file that is named is checked whatever it is. Below
    a folder, and among what a glob finds, those files are checked that end in .yaml, .yml or .json, begin with the key
    'planproof', and that neither .gitignore nor .planproofignore leaves out; and launch files of training frameworks, which end
    in one of those or in .toml, .sh, .bash, .slurm, .sbatch or .sub. Links are not followed out of the repository.

    A launch file on its own is judged on what it states; what it lacks is one note, unless --require-evidence is given. A
    'proposal.yaml' beside it that names it under 'launch', or a 'cluster.yaml', completes it.

    With --diff a proposal counts as changed where it was edited, is new, or names a file that changed.

    A format may be given several times, each with its file; a file is written whole or not at all. With the format 'github' a
    summary is added to the file that GITHUB_STEP_SUMMARY names.

    \b
    Examples:
      planproof lint plans/
      planproof lint 'plans/**/*.yaml' --fail-on warning
      planproof lint --diff origin/main . --format github --format sarif=plan.sarif
      planproof lint - --stdin-filename plans/a.yaml --format concise < a.yaml

    Exit status: 0 where nothing is at or above --fail-on; 1 where something is; 2 where a file could not be judged (the others
    are still checked), no proposal was found, or the command line is wrong; 130 where it was interrupted.
    """
    return _Run(paths, values).status()


@dataclass
class _Run:
    """One call of the command."""

    paths: tuple[str, ...]
    values: dict[str, Any]
    outputs: list[Output] = field(init=False)
    broken: list[Unjudged] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    strict: bool = False

    def __post_init__(self) -> None:
        self.outputs = _settled(self.values.pop("outputs"))

    def status(self) -> int:
        """Check everything, write everything; what the command ends with."""
        from .lint_work import Work

        values = self.values
        base, target = values.pop("base"), values.pop("write_baseline")
        known, shrink = values.pop("baseline"), values.pop("update_baseline")
        if shrink and known is None:
            raise click.UsageError("--update-baseline needs the file of --baseline.")
        self.strict = values.pop("require_evidence")
        color = _colour(values.pop("color"))
        fail_on, jobs = values.pop("fail_on"), values.pop("jobs") or _processors()
        files = self._files(base)
        _spare(files, [*(one.file for one in self.outputs), target])
        summary = os.environ.get("GITHUB_STEP_SUMMARY") if any(one.format == "github" for one in self.outputs) else None
        formats = tuple(dict.fromkeys([one.format for one in self.outputs] + (["markdown"] if summary else [])))
        baseline = _baseline(known, base, anew=target is not None)
        work = Work(
            options=replace(options_of(values), base=base),
            formats=formats,
            root=self._root(),
            fail_on=fail_on,
            color=color,
            baseline=baseline,
        )
        parts, failing, found = self._check(files, work, jobs)
        self._write(formats, parts, summary)
        if baseline is not None:
            self._keep(baseline, found, known, target, shrink=shrink, root=work.root)
            failing &= target is None
        return 2 if self.broken else 1 if failing else 0

    def _keep(
        self, baseline: Baseline, found: Sequence[Known], known: str | None, target: str | None, *, shrink: bool, root: str
    ) -> None:
        """Say what is gone from the baseline, or take it out; write what was found as a new one."""
        from ..report.baseline import gone, gone_text, without, write_baseline

        if known is not None:
            lost = gone(baseline, found, self.checked, Path(root))
            if shrink:
                write_baseline(known, without(baseline, lost).findings)
            else:
                click.echo(_terminal(gone_text(lost)), err=True, nl=False)
        if target is not None:
            click.echo(_terminal(f"{target}: {write_baseline(target, found)} findings are known from now on"), err=True)

    def _root(self) -> str:
        from ..files import checkout_root

        return checkout_root(os.getcwd())

    def _files(self, base: str | None) -> list[Found]:
        """The files that are meant; what could not be looked into among them. Raises UsageError where there is none."""
        from ..errors import UsageError
        from ..files import Found, discover

        stdin_filename = self.values.pop("stdin_filename")
        only, allowed = self.values.pop("only_proposals"), self.values.pop("allow_empty")
        named = [path for path in self.paths if path != STANDARD_INPUT]
        discovery = discover(named, only_proposals=only)
        found = list(discovery.found)
        if any(one.launch for one in found):
            # Imported where there is a candidate: most folders have none, and lint is to start quickly.
            from .lint_launch import confirmed

            found = confirmed(found)
        if STANDARD_INPUT in self.paths:
            found.append(Found(stdin_filename or UNNAMED, raw=_standard_input()))
        if not found:
            message = _nothing(named, discovery)
            if not allowed:
                raise UsageError(
                    message,
                    code="usage.no_files",
                    remedy="Name a folder that holds proposals, or pass --allow-empty where there may be none.",
                )
            click.echo(_terminal(message), err=True)
        if base is None:
            return found
        from ..files.changes import changes_since

        changes = changes_since(base, ".")
        touched = [one for one in found if one.error is not None or one.raw is not None or _touched(changes, one)]
        if found and not touched:
            click.echo(_terminal(f"none of {_proposals(len(found))} has changed since '{base}'"), err=True)
        return touched

    def _check(self, files: Sequence[Found], work: Work, jobs: int) -> tuple[list[list[Any]], bool, list[Known]]:
        """Check the files; what each writer made of them, whether any fails, what a baseline may hold."""
        from ..pipeline import Submitted
        from ..report.formats import writer
        from .lint_work import check, not_judged

        stream = next((one for one in self.outputs if one.file is None and writer(one.format).streams), None)
        shown = work.formats.index(stream.format) if stream is not None else -1
        quiet = any(one.file is None and one.format == "json" for one in self.outputs)
        results = check([Submitted(one.path, one.raw, self.strict) for one in files if one.error is None], work, jobs)
        parts: list[list[Any]] = [[] for _ in work.formats]
        known: list[Known] = []
        failing, progress = False, Progress(len(files))
        for one in files:
            done: Done = next(results) if one.error is None else not_judged(one.path, one.error, work.root)
            progress.step()
            known += done.known
            failing |= done.fails
            if done.unjudged is not None:
                self.broken.append(done.unjudged)
                if not quiet:
                    progress.clear()
                    click.echo(_terminal(f"error: {done.unjudged.error}"), err=True)
                continue
            self.checked.append(done.name)
            for k, part in enumerate(done.parts):
                if k == shown:
                    progress.clear()
                    click.echo(part, nl=False)
                if k != shown or any(other.format == work.formats[k] for other in self.outputs if other.file is not None):
                    parts[k].append(part)
        progress.clear()
        return parts, failing, known

    def _write(self, formats: Sequence[str], parts: Sequence[list[Any]], summary: str | None) -> None:
        """All outputs: every one is made before the first is written."""
        from ..report.formats import writer
        from ..report.output import write_whole

        made = {}
        for name, row in zip(formats, parts, strict=True):
            chosen = writer(name)
            streamed = chosen.streams and not any(one.format == name and one.file is not None for one in self.outputs)
            made[name] = "" if streamed else chosen.whole(row, self.broken)
        for one in self.outputs:
            if one.file is not None:
                write_whole(one.file, made[one.format])
            elif not writer(one.format).streams:
                click.echo(made[one.format], nl=False)
        if summary:
            _summarise(summary, made["markdown"])


class Progress:
    """How far a long run is, in one line on standard error, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._shown = 0.0
        self._visible = False
        self._on = sys.stderr.isatty()

    def step(self) -> None:
        """One more file is done."""
        self._done += 1
        now = time.monotonic()
        if self._on and now - self._started > _LONG and now - self._shown > 0.1 and self._done < self._total:
            self._shown, self._visible = now, True
            click.echo(f"\r\x1b[K{self._done:,} of {self._total:,} files", err=True, nl=False)

    def clear(self) -> None:
        """Take the line away, before something else is written."""
        if self._visible:
            self._visible = False
            click.echo("\r\x1b[K", err=True, nl=False)


def _settled(outputs: Sequence[Output]) -> list[Output]:
    """The outputs, if they do not stand in each other's way."""
    streams = [one.format for one in outputs if one.file is None]
    if len(streams) > 1:
        raise click.UsageError(
            f"Only one format can go to standard output, and {' and '.join(repr(name) for name in streams)} would: "
            "give the others a file, as in 'sarif=plan.sarif'."
        )
    files = [os.path.realpath(one.file) for one in outputs if one.file is not None]
    twice = next((one.file for one in outputs if one.file is not None and files.count(os.path.realpath(one.file)) > 1), None)
    if twice is not None:
        raise click.UsageError(f"Two formats would go to the file '{twice}': give each its own.")
    return list(outputs)


def _spare(files: Sequence[Found], written: Sequence[str | None]) -> None:
    """Raise where an output would take the place of a file that is checked."""
    checked = {os.path.realpath(one.path) for one in files}
    over = next((name for name in written if name is not None and os.path.realpath(name) in checked), None)
    if over is not None:
        raise click.UsageError(f"'{over}' is one of the files to check, and would be replaced: name another file.")


def _standard_input() -> bytes:
    """Standard input up to just beyond the limit of a document, whose reader then says that it is too large."""
    from ..document.limits import MAX_BYTES

    return sys.stdin.buffer.read(MAX_BYTES + 1)


def _touched(changes: Any, one: Found) -> bool:
    try:
        return bool(changes.touches(one.path))
    except OSError:
        return True  # its reader says why it cannot be read


def _nothing(paths: Sequence[str], discovery: Discovery) -> str:
    where = " and ".join(f"'{path}'" for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    looked = discovery.looked_at
    if looked:
        files = "1 file was" if looked == 1 else f"{looked:,} files were"
        return f"there is no proposal in {where}: {files} looked at, and none begins with the key 'planproof' or is a launch file"
    return f"there is no proposal in {where}: no file there that is not ignored has the ending of one"


def _proposals(number: int) -> str:
    return "1 proposal" if number == 1 else f"{number:,} proposals"


def _processors() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(2, count)


def _baseline(known: str | None, base: str | None, *, anew: bool) -> Baseline | None:
    """The baseline that the run is held against; one that knows nothing where one is only to be written.

    Against a base revision it is that revision's: the change that is judged cannot write what is known of it.
    """
    if known is None and not anew:
        return None
    from ..report.baseline import Baseline, parse_baseline, read_baseline

    if known is None:
        return Baseline()
    if base is None:
        return read_baseline(known)
    from ..config import file_from_revision

    raw = file_from_revision(base, known)
    return Baseline() if raw is None else parse_baseline(raw, f"{base}:{known}")


def _summarise(path: str, text: str) -> None:
    """Add the summary to the runner's file, cut at a line where it would be too long to be shown."""
    from ..errors import UsageError

    raw = text.encode("utf-8")
    if len(raw) > _SUMMARY:
        note = "\n\nThe summary is cut here: it is longer than what can be shown.\n"
        kept = raw[: _SUMMARY - len(note)]
        raw = kept[: kept.rfind(b"\n") + 1] + note.encode()
    try:
        with open(path, "ab") as file:
            file.write(raw)
    except OSError as error:
        raise UsageError(
            f"the summary cannot be written to '{path}': {error.strerror}",
            code="usage.output",
            remedy="GITHUB_STEP_SUMMARY names that file; unset it where this is no step of a workflow.",
        ) from None


def _terminal(text: str) -> str:
    from ..report.escape import terminal

    return terminal(text)


def _colour(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
