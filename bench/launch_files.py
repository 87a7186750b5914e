"""What the importers take from a folder of real launch files, and how much of each they understand.

    python bench/launch_files.py --data DIR [--json]

Every file below DIR is read (an `index.md` is passed over): its kind, the share of its keys that were read, set aside with a
reason and not understood, the axes, batch, shapes, precision and recompute that were taken, and the names of keys that were not
understood. Keys that name a degree, a batch, a shape or a dtype and were not understood are counted apart: none may be. Model
configurations of Hugging Face are read by their own importer. Prints; judges nothing but what its last line counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planproof.document import parse_document
from planproof.errors import PlanproofError
from planproof.importers import hf_config
from planproof.importers.launch import LAUNCH, SourceFile, Use, only_kind, read_launch
from planproof.importers.launch.entries import DECIDES

SHOWN = {
    "axes": ("uniform/data", "uniform/tensor", "uniform/pipeline", "uniform/context", "uniform/expert", "interleave"),
    "batch": ("microbatch", "accumulation"),
    "plan": ("zero", "recompute", "sequence_parallel", "schedule"),
}


def row(path: Path, name: str) -> dict[str, Any]:
    """What became of one file."""
    file = SourceFile(name, path.read_bytes())
    try:
        kind = only_kind(file)
        if kind == "hf-config":
            return hf_row(file, name)
        if kind not in LAUNCH:
            return {"file": name, "kind": kind, "error": "no launch file"}
        found = read_launch(file, kind)
    except PlanproofError as error:
        return {"file": name, "kind": None, "error": error.message}
    counts, total = found.counts(), max(1, len(found.keys))
    unknown = [key.name for key in found.keys if key.use is Use.UNKNOWN]
    taken = {
        group: {path.rpartition("/")[2]: found.value(f"/plans/0/{path}") for path in paths} for group, paths in SHOWN.items()
    }
    shapes = {part.path.removeprefix("/model/transformer/"): part.value for part in found.parts if "/transformer/" in part.path}
    work = {part.path.removeprefix("/workload/"): part.value for part in found.parts if part.path.startswith("/workload/")}
    return {
        "file": name,
        "kind": kind,
        "keys": len(found.keys),
        "read": counts[Use.READ] / total,
        "aside": counts[Use.ASIDE] / total,
        "unknown": counts[Use.UNKNOWN] / total,
        "unknown_keys": unknown,
        "deciding_unknown": [key for key in unknown if DECIDES.search(key.lower().replace("-", "_"))],
        "taken": {**taken, "shapes": shapes, "workload": work},
        "open": {gap.path: gap.why for gap in found.gaps},
    }


def hf_row(file: SourceFile, name: str) -> dict[str, Any]:
    """What became of a model's configuration."""
    document = parse_document(file.raw, name)
    assert isinstance(document.data, dict)
    found = hf_config.read(document.data, document.place)
    total = max(1, len(document.data))
    model = found.transformer
    return {
        "file": name,
        "kind": "hf-config",
        "keys": len(document.data),
        "read": (total - len(found.unread) - len(found.set_aside)) / total,
        "aside": len(found.set_aside) / total,
        "unknown": len(found.unread) / total,
        "unknown_keys": list(found.unread),
        "deciding_unknown": [],
        "taken": {"shapes": {n: getattr(model, n) for n in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary")}},
        "open": {},
    }


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The table for people."""
    yield f"{'file':60} {'kind':12} {'keys':>5} {'read':>6} {'aside':>6} {'unknown':>7}"
    for one in rows:
        if "error" in one:
            yield f"{one['file'][-60:]:60} {one['kind'] or '-':12} {one['error'][:90]}"
            continue
        yield (
            f"{one['file'][-60:]:60} {one['kind']:12} {one['keys']:5} {one['read']:6.1%} {one['aside']:6.1%} "
            f"{one['unknown']:7.1%}"
            f"  {', '.join(one['unknown_keys'][:6])}"
        )
        for group, values in one["taken"].items():
            said = ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)
            if said:
                yield f"    {group}: {said}"
        for path, why in one["open"].items():
            yield f"    open: {path}: {why}"
    good = [one for one in rows if "error" not in one]
    worst = max((one["unknown"] for one in good), default=0.0)
    deciding = sum(len(one["deciding_unknown"]) for one in good)
    yield (
        f"{len(good)} of {len(rows)} files read; not understood {worst:.1%} of a file at most; "
        f"{deciding} keys that decide not understood"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    files = sorted(path for path in given.data.rglob("*") if path.is_file() and path.name != "index.md")
    rows = [row(path, path.relative_to(given.data).as_posix()) for path in files]
    print(json.dumps(rows, indent=1) if given.json else "\n".join(lines(rows)))


if __name__ == "__main__":
    main()
