"""Checking many files: in this process, or in several, with the same results in the same order.

Each process has its own sessions, so rule sets are compiled once a process; files are dealt out in turn, and results are taken
in turn, so the order is that of the files. What crosses the border between processes is what writers made of a report, never
the report. A process that dies is a fault that is said, not a file that is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InternalFault, PlanproofError
from ..frozen import dataclass
from ..pipeline import Options, Submitted, lint_each
from ..report.formats import Checked, Unjudged, writer
from .main import fails

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ..report.baseline import Baseline, Known

#: Fewer files than this are not worth another process.
WORTH = 8


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done with every file: the formats that are wanted, and what makes it fail.

    `root` is the repository's, from which reports name files; `baseline` the findings that are known.
    """

    options: Options
    formats: tuple[str, ...]
    root: str
    fail_on: str | None = None
    color: bool = False
    baseline: Baseline | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file: a part a format, whether it fails, what a baseline may hold of it; or why it was not judged."""

    name: str
    parts: tuple[Any, ...] = ()
    fails: bool = False
    known: tuple[Known, ...] = ()
    unjudged: Unjudged | None = None


def check(files: Sequence[Submitted], work: Work, jobs: int = 1) -> Iterator[Done]:
    """The outcome of every file, in order, by up to `jobs` processes. Raises UsageError for a configuration that is wrong."""
    jobs = min(jobs, len(files) // (WORTH // 2))
    if jobs < 2 or not hasattr(os, "fork"):
        return _checked(files, work)
    return _dealt(files, work, jobs)


def not_judged(path: str, error: PlanproofError, root: str) -> Done:
    """The outcome of a file that could not be judged."""
    name = repository_name(path, root)
    return Done(name, unjudged=Unjudged(path, name, error))


def repository_name(path: str, root: str) -> str:
    """A path as reports name it: from the repository's root with '/', whole where it lies elsewhere."""
    folder, name = os.path.split(os.path.abspath(path))
    real = os.path.join(os.path.realpath(folder), name)
    inside = os.path.relpath(real, root) if os.path.commonpath([real, root]) == root else real
    return os.fsencode(inside).decode("utf-8", "backslashreplace").replace(os.sep, "/")


def _checked(files: Sequence[Submitted], work: Work) -> Iterator[Done]:
    writers = [writer(name) for name in work.formats]
    for path, report in lint_each(files, work.options):
        if isinstance(report, PlanproofError):
            yield not_judged(path, report, work.root)
            continue
        name = repository_name(path, work.root)
        known: tuple[Known, ...] = ()
        if work.baseline is not None:
            from ..report.baseline import against, knowable

            known, report = knowable(report, name), against(report, name, work.baseline)
        fail_on = work.fail_on or report.terms.fail_on or "error"
        checked = Checked(report, name, fail_on, work.color)
        yield Done(name, tuple(one.part(checked) for one in writers), fails(report.counted, fail_on), known)


def _dealt(files: Sequence[Submitted], work: Work, jobs: int) -> Iterator[Done]:
    import multiprocessing

    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(jobs)]
    processes = [
        context.Process(target=_serve, args=(files[k::jobs], work, pipes, k), name=f"planproof-{k}", daemon=True)
        for k in range(jobs)
    ]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        for k in range(len(files)):
            yield _taken(pipes[k % jobs][0], files[k].path)
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
        for ours, _ in pipes:
            ours.close()


def _taken(pipe: Connection, path: str) -> Done:
    try:
        found = pipe.recv()
    except (EOFError, OSError):
        raise InternalFault(
            f"the process that checked '{path}' ended without a word",
            code="internal.worker",
            remedy="Run it again with --jobs 1; if that fails too, report it with the file.",
        ) from None
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, Done)
    return found


def _serve(files: Sequence[Submitted], work: Work, pipes: Sequence[tuple[Connection, Connection]], own: int) -> None:
    """A process's share: outcomes, or the exception that ended it, go back through its pipe."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told too, and ends this process
    for k, (ours, theirs) in enumerate(pipes):
        # Closed, so that a pipe ends with its one writer; those of earlier processes the parent has closed already.
        ours.close()
        if k > own:
            theirs.close()
    pipe = pipes[own][1]
    try:
        for done in _checked(files, work):
            pipe.send(done)
    except BrokenPipeError:
        return
    except Exception as error:
        pipe.send(error)
