"""An existing record as a file: what it names (inputs, options, format), and what it said, for comparison with a new review.

A record is text that people may have edited. Its front matter says which inputs to start from; nothing else of it is
believed. The table of digests and the lines of verdict and plan are read only to say what differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..errors import DataError, Place, UsageError
from .human_block import human_block, with_human_block
from .record_head import FORMAT

MOST_BYTES = 4 * 2**20
_DIGEST = re.compile(r"^\| (.+?) \| ([0-9a-f]{64}) \|$")
_PLAN = re.compile(r"^- \*\*Plan\*\*: (.*)$", re.MULTILINE)
_OPTIONS = ("as-of", "hardware", "rules", "config", "isolated", "work-limit", "time-limit")


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A record: where its proposal is from its repository's root, with what options it was made, and what it said."""

    name: str
    text: str
    proposal: str
    sha256: str
    verdict: str
    title: str
    date: str | None
    supersedes: str | None
    status: str
    options: tuple[tuple[str, str], ...]
    digests: dict[str, str]
    plan: str


def read_record(path: Path) -> RecordFile:
    """The record at `path`. Raises DataError for what is no record, or one of another format."""
    name = str(path)
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8")
    except OSError as error:
        raise DataError(f"the record cannot be read: {error.strerror}", place=Place(name), code="record.unreadable") from None
    except UnicodeDecodeError:
        raise DataError("the record is not UTF-8", place=Place(name), code="record.unreadable") from None
    if len(raw) > MOST_BYTES:
        raise DataError(f"the record has {len(raw)} bytes; at most {MOST_BYTES} are read", place=Place(name))
    front = _front(text, name)
    held = front.get("planproof_record")
    if held is None:
        raise DataError(
            "the front matter has no 'planproof_record': this is no decision record of planproof",
            place=Place(name, 1),
            remedy="Name a file that 'planproof review FILE -o RECORD.md' wrote.",
            code="record.none",
        )
    if held != FORMAT:
        when = "older" if isinstance(held, int) and held < FORMAT else "unknown"
        raise DataError(
            f"the record has the {when} format {held!r}; this release reads and writes format {FORMAT}",
            place=Place(name, _line_of(text, "planproof_record:")),
            remedy="Review its proposal again with -o on this file (the block for people is kept), or use its own release.",
            code="record.format",
        )
    human_block(text, name)
    proposal = front.get("proposal")
    if not isinstance(proposal, dict) or not isinstance(proposal.get("path"), str) or not isinstance(proposal.get("sha256"), str):
        raise DataError(
            "the front matter has no 'proposal' with 'path' and 'sha256'", place=Place(name, 1), code="record.front",
            remedy="Restore it from the version control of the record.",
        )  # fmt: skip
    plan = _PLAN.search(text)
    supersedes, day = front.get("supersedes"), front.get("date")
    return RecordFile(
        name=name,
        text=text,
        proposal=proposal["path"],
        sha256=proposal["sha256"],
        verdict=str(front.get("verdict", "")),
        title=str(front.get("title", "")),
        date=str(day) if day is not None else None,
        supersedes=str(supersedes) if supersedes is not None else None,
        status=str(front.get("status", "")),
        options=_options(front.get("options"), name),
        digests={match[1].replace("\\", ""): match[2] for match in map(_DIGEST.match, text.split("\n")) if match},
        plan=plan[1] if plan else "none",
    )


def is_record(path: Path) -> bool:
    """Whether a file looks like a record at all, of whatever format."""
    try:
        with path.open("rb") as file:
            return b"\nplanproof_record:" in file.read(20_000)
    except OSError:
        return False


def _front(text: str, name: str) -> dict[str, object]:
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        raise DataError("the file does not begin with front matter", place=Place(name, 1), code="record.none",
                        remedy="Name a file that 'planproof review FILE -o RECORD.md' wrote.")  # fmt: skip
    body = text[4:].split("\n---\n", 1)[0]
    if len(body) > 20_000 or re.search(r"(^|[\s\[{,:])[&*][A-Za-z0-9]", re.sub(r'"(\\.|[^"\\])*"', '""', body)):
        raise DataError("the front matter is too long or has YAML anchors", place=Place(name, 1), code="record.front")
    try:
        found = yaml.safe_load(body)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(
            f"the front matter is not YAML: {getattr(error, 'problem', None) or error}",
            place=Place(name, mark.line + 2 if mark is not None else 1),
            code="record.front",
        ) from None
    if not isinstance(found, dict):
        raise DataError("the front matter is no mapping", place=Place(name, 1), code="record.front")
    return found


def _options(found: object, name: str) -> tuple[tuple[str, str], ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DataError("'options' of the front matter is no list of texts", place=Place(name, 1), code="record.front")
    rows = []
    for one in found:
        option, _, value = one.removeprefix("--").partition("=")
        if not one.startswith("--") or option not in _OPTIONS:
            raise DataError(
                f"the front matter has the option '{one[:60]}', which changes no review",
                place=Place(name, 1), code="record.front",
                remedy=f"Options that count: {', '.join('--' + known for known in _OPTIONS)}.",
            )  # fmt: skip
        rows.append((option, value))
    return tuple(rows)


def _line_of(text: str, start: str) -> int | None:
    return next((k for k, line in enumerate(text.split("\n"), start=1) if line.startswith(start)), None)


def find_proposal(record: RecordFile, root: str | None) -> Path:
    """The proposal that a record names: under `root`, or under the nearest folder above the record that has it.

    Raises UsageError where there is none.
    """
    wanted = Path(record.proposal)
    if wanted.is_absolute() or ".." in wanted.parts:
        raise UsageError(
            f"the record names the proposal '{record.proposal[:120]}', which is no path inside a repository",
            place=Place(record.name), code="record.proposal", remedy="Restore the front matter of the record.",
        )  # fmt: skip
    folders = [Path(root)] if root is not None else [*Path(record.name).resolve().parents]
    for folder in folders:
        if (folder / wanted).is_file():
            return folder / wanted
    raise UsageError(
        f"the proposal '{record.proposal}' of this record is not found {'under ' + root if root else 'in any folder above it'}",
        place=Place(record.name),
        remedy="Name the folder that its path starts from: --root DIR.",
        code="record.proposal",
    )


#: Options of a record that name a folder or a file, and what each is.
NAMED = {"hardware": "a folder of data sheets", "rules": "a folder of rules", "config": "a configuration"}


def values_of(record: RecordFile, option: str) -> list[str]:
    """What the record says for an option, in order."""
    return [value for name, value in record.options if name == option]


def find_named(record: RecordFile, option: str, base: Path, given: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders or files that an option of the record names: those that are `given` now, else from `base`, the root of its
    proposal's repository, from here, or from a folder above the record.

    Raises UsageError for one that is nowhere there, with what to name.
    """
    values = values_of(record, option)
    if given:
        if len(given) != len(values):
            raise UsageError(
                f"the record was made with {len(values)} of --{option}, and {len(given)} of them are named now",
                place=Place(record.name, _line_of(record.text, "options:")), code="record.option",
                remedy=f"Name as many: {', '.join(values)}." if values else f"Leave --{option} out.",
            )  # fmt: skip
        return tuple(given)
    found = []
    for value in values:
        folders = [base, Path(), *Path(record.name).resolve().parents]
        place = next((folder / value for folder in folders if (folder / value).exists()), None)
        if place is None:
            raise UsageError(
                f"the record was made with '--{option}={value[:120]}', {NAMED[option]} that is not found from here",
                place=Place(record.name, _line_of(record.text, "options:")), code="record.option",
                remedy=f"Say where it is now: --{option} PATH.",
            )  # fmt: skip
        found.append(str(place))
    return tuple(found)


def base_of(record: RecordFile, proposal: Path) -> Path:
    """The root that the record's paths start from, given where its proposal was found."""
    return proposal.parents[len(Path(record.proposal).parts) - 1]


def differences(record: RecordFile, text: str, digests: dict[str, str]) -> list[str]:
    """What differs between a record and the same review made again, the causes first; empty where the bytes are the same."""
    if record.text == text:
        return []
    old, new = record.text, with_human_block(text, human_block(record.text, record.name))
    if old == new:
        return []
    lines = []
    if new.rstrip("\n").rsplit("\n", 1)[-1] not in old:
        ends = len(old.rstrip("\n").split("\n"))
        lines.append(f"the record ends at line {ends}, before its last section: it was cut, and names fewer inputs than it had")
        digests = {name: digest for name, digest in digests.items() if name in record.digests}
    cut = bool(lines)
    for name in sorted({*record.digests, *digests}, key=lambda name: (name != "proposal", name)):
        before, after = record.digests.get(name), digests.get(name)
        if before == after:
            continue
        what = {"rules": "the rules in force", "planproof": "the release of planproof", "proposal": "the proposal"}.get(
            name, name
        )
        state = "was not an input before" if before is None else "is not an input any more" if after is None else "has changed"
        lines.append(f"input: {what} {state}")
    same_inputs = not lines and not cut
    again = read_verdict(text)
    if again != (record.verdict, record.plan):
        lines.append(f"verdict: {record.verdict} with {record.plan} -> {again[0]} with {again[1]}")
    else:
        lines.append("the verdict and the plan are the same")
    if same_inputs:
        lines.insert(
            0, "no input differs: the record was edited outside its block for people, or made by other code of this release"
        )
    changed = list(difflib.unified_diff(old.split("\n"), new.split("\n"), "record", "review", lineterm="", n=0))
    places = [int(match[1]) for match in (re.match(r"@@ -(\d+)", line) for line in changed) if match]
    body = [line for line in changed if not line.startswith(("@@", "---", "+++"))]
    lines.append(f"{len(places)} places differ, the first at line {places[0] if places else 1}:")
    return lines + [line[:240] for line in body[:12]] + ([f"... and {len(body) - 12} more lines"] if len(body) > 12 else [])


def read_verdict(text: str) -> tuple[str, str]:
    """(verdict, plan) of a record's text."""
    verdict = re.search(r"^verdict: (\w+)$", text, re.MULTILINE)
    plan = _PLAN.search(text)
    return verdict[1] if verdict else "", plan[1] if plan else "none"
