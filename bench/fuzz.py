"""Fuzz the parsers and whole reviews, and count: read, refused, faults, slowest.

    python bench/fuzz.py [--inputs N] [--reviews N] [--lints N] [--seed S] [--jobs J] [--limit SECONDS] [--minutes M]
                         [--keep DIR] [--json]

- `--inputs`: drawn inputs over all readers in turn (`tests/fuzz/fuzz_inputs.py`), each honest, spoilt or noise.
- `--lints`: whole proposals through facts and both evaluators. Two of five have an operator graph for a model
  (`tests/fuzz/fuzz_graphs.py`): a family, or blocks over drawn dims, with stages and layouts at random.
- `--reviews`: through the search too, priced, decided and written as JSON, every fifth as a record, every twentieth as HTML.
  Three of four have a narrow space and are searched to its end; the others have whatever space was drawn, and a limit of 0.2 s.

The same seed, number and jobs draw the same inputs; `--minutes` ends a run early, having tried the first of them. A fault is
anything raised that is no error of planproof, an error that says `internal`, or more than `--limit` seconds; its input is written
to `--keep` for `tests/fuzz/corpus/`. Exit status 1 with faults. Beside faults: the largest resident size of a process, sockets
opened, and files written anywhere but in `--keep`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import resource
import signal
import sys
import time
from collections import Counter
from functools import partial
from itertools import takewhile
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "fuzz"))

from fuzz_graphs import on_a_graph
from fuzz_inputs import ALLOWED, READERS, changed, drawn, narrow, proposal, spoilt, written
from planproof.errors import PlanproofError
from planproof.pipeline import Options, Session, examine, review_loaded
from planproof.proposal import parse_proposal
from planproof.report.html import render_html
from planproof.report.record import render_record
from planproof.report.review_json import json_text, review_json

WHERE = Path("/nowhere/p.yaml")
#: Share of the whole proposals whose model is an operator graph.
GRAPHS = 0.4


class TooLong(BaseException):
    """An input that takes longer than the limit: no Exception, so that nothing of ours catches it."""


def alarmed(*_: object) -> None:
    raise TooLong


#: What the audit of the process saw: sockets, and files opened for writing.
SEEN: Counter[str] = Counter()


def audit(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith("socket.") and event not in ("socket.gethostname",):
        SEEN[event] += 1
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        SEEN[f"written: {arguments[0]}"] += 1


def whole(rng: Random, narrowed: bool = False) -> bytes:
    kind, made = rng.random(), proposal(rng)
    if rng.random() < GRAPHS:
        made = on_a_graph(rng, made)
    if narrowed:
        made["layouts"] = narrow(rng)
    if kind < 0.7:
        return written(rng, made)
    raw = written(rng, changed(rng, made))
    return raw if kind < 0.95 else spoilt(rng, raw)


def reviewed(raw: bytes, opened: Session, number: int) -> None:
    """A whole review and what is printed of it."""
    done = review_loaded(parse_proposal(raw, "p.yaml", WHERE), opened)
    json.loads(json_text(review_json(done)))
    if number % 5 == 0:
        render_record(done)
    if number % 20 == 0:
        render_html(done)


def run(share: tuple[int, int, int, int, int, float, float]) -> dict[str, object]:
    """A process's share: counts by reader, and the faults with their inputs."""
    seed, job, inputs, lints, reviews, limit, minutes = share
    ends = time.monotonic() + 60 * minutes
    rng = Random(f"{seed}/{job}")
    counts: Counter[str] = Counter()
    faults: list[tuple[str, str, bytes]] = []
    slowest: dict[str, float] = {}
    signal.signal(signal.SIGALRM, alarmed)
    sys.addaudithook(audit)

    def tried(name: str, raw: bytes, call: object) -> None:
        started = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            call(raw)  # type: ignore[operator]  # a function of bytes
            counts[f"{name} read"] += 1
        except ALLOWED as error:
            if isinstance(error, PlanproofError) and error.code.startswith("internal"):
                faults.append((name, f"{error.code}: {error.message}", raw))
            counts[f"{name} refused"] += 1
        except TooLong:
            faults.append((name, f"more than {limit} s", raw))
        except Exception as error:
            faults.append((name, f"{type(error).__name__}: {error}", raw))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            slowest[name] = max(slowest.get(name, 0.0), time.perf_counter() - started)

    names = list(READERS)
    for k in takewhile(lambda _: time.monotonic() < ends, range(inputs)):
        name = names[k % len(names)]
        tried(name, drawn(rng, name), READERS[name][1])
    if lints or reviews:
        opened, limited = Session(Options()), Session(Options(time_limit=0.2))
        try:
            for _ in takewhile(lambda _: time.monotonic() < ends, range(lints)):
                tried("lint", whole(rng), lambda raw: examine(parse_proposal(raw, "p.yaml", WHERE), opened))
            for k in takewhile(lambda _: time.monotonic() < ends, range(reviews)):
                wide = k % 4 == 3
                tried("review", whole(rng, not wide), partial(reviewed, opened=limited if wide else opened, number=k))
        finally:
            opened.close()
            limited.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"counts": counts, "faults": faults, "slowest": slowest, "peak_mib": peak, "seen": dict(SEEN)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--lints", type=int, default=0)
    parser.add_argument("--reviews", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    started = time.perf_counter()
    totals = [total // chosen.jobs for total in (chosen.inputs, chosen.lints, chosen.reviews)]
    shares = [(chosen.seed, job, *totals, chosen.limit, chosen.minutes) for job in range(chosen.jobs)]
    with multiprocessing.get_context("spawn").Pool(chosen.jobs) as pool:
        results = pool.map(run, shares)
    counts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for one in results:
        counts.update(one["counts"])
        seen.update(one["seen"])
    faults = [fault for one in results for fault in one["faults"]]
    names = sorted({key.split()[0] for key in counts})
    slow = {name: round(max(one["slowest"].get(name, 0.0) for one in results), 3) for name in names}
    found = {
        "seed": chosen.seed, "jobs": chosen.jobs, "seconds": round(time.perf_counter() - started, 1),
        "tried": sum(counts.values()),
        "faults": len(faults), "peak_mib": max(one["peak_mib"] for one in results), "counts": dict(sorted(counts.items())),
        "slowest_s": slow, "sockets_and_files": dict(seen),
    }  # fmt: skip
    print(json.dumps(found, indent=2) if chosen.json else "\n".join(f"{key}: {value}" for key, value in found.items()))
    for name, what, raw in faults[:20]:
        print(f"fault in {name}: {what[:300]}", file=sys.stderr)
        if chosen.keep is not None:
            folder = chosen.keep / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / hashlib.sha256(raw).hexdigest()[:16]).write_bytes(raw)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
