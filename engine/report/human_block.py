"""The block of a record that people write in: found in a record, put into a new one, left out where records are compared.

A record has one pair of markers, each alone on its line. Nothing else of an existing record is kept.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import Place, UsageError

BEGIN, END = "<!-- decision: begin -->", "<!-- decision: end -->"


def human_block(record: str, name: str) -> str:
    """What people wrote, without the markers. Raises UsageError, with a place in `name`, where the markers are not one pair."""
    lines = record.split("\n")
    begins = [k for k, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [k for k, line in enumerate(lines) if line.strip() == END]
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        at = (begins + ends + [0])[0]
        raise UsageError(
            f"the block for people is not marked once: {len(begins)} x '{BEGIN}', {len(ends)} x '{END}'",
            place=Place(name, at + 1),
            remedy="Restore one pair of markers, first above second, each alone on its line; what stands between is kept.",
            code="record.markers",
        )
    return "\n".join(lines[begins[0] + 1 : ends[0]])


def kept_block(path: Path) -> str | None:
    """What people wrote into the file that a new record replaces; None where it holds no record. Raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file to replace cannot be read as a record: {error}",
            place=Place(str(path)),
            remedy="Name another file, or move this one away.",
            code="record.unreadable",
        ) from None
    return human_block(text, str(path)) if "planproof_record:" in text[:20000] or BEGIN in text else None


def with_human_block(record: str, block: str) -> str:
    """`record` with `block` between its markers."""
    head, _, rest = record.partition(BEGIN + "\n")
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{block}\n{END}{tail}"
