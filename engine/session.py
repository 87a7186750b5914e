"""What reviews share, opened once: data sheets, the rules in force, the gate with its worker, under one configuration.

A session knows which configuration counts for which proposal, and nothing of how a proposal is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .config import ISOLATED, Settings
from .errors import PlanproofError
from .facts import KINDS
from .frozen import dataclass
from .hardware import Library, folder_name, open_library
from .inference import Catalogue, Gate, load_catalogue
from .proposal.references import repository_root

if TYPE_CHECKING:
    from .config import Change


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose. `as_of` dates evidence; `hardware` are folders of data sheets; `rules` further rule folders.

    The configuration is `settings`; where that is None, the file `config`, else the nearest to each proposal. With `base` the
    latter two are read as that revision of the checkout has them.
    """

    as_of: date | None = None
    hardware: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    work_limit: int | None = None
    time_limit: float | None = None
    evaluators: Literal["both", "reference"] = "both"
    settings: Settings | None = None
    config: str | None = None
    base: str | None = None

    def said(self, root: Path | None = None) -> tuple[tuple[str, str | bool], ...]:
        """The options that change what is decided, as they are typed. Folders and files from `root`, the repository of the
        proposal; what lies outside it by its own name."""
        rows: list[tuple[str, str | bool]] = []
        if self.as_of is not None:
            rows.append(("as-of", self.as_of.isoformat()))
        rows += [("hardware", folder_name(folder, root)) for folder in self.hardware]
        rows += [("rules", folder_name(folder, root)) for folder in self.rules]
        if self.config is not None:
            rows.append(("config", folder_name(self.config, root)))
        if self.settings is ISOLATED:
            rows.append(("isolated", True))
        if self.work_limit is not None:
            rows.append(("work-limit", str(self.work_limit)))
        if self.time_limit is not None:
            rows.append(("time-limit", f"{self.time_limit:g}"))
        return tuple(rows)


@dataclass
class Session:
    """What reviews share: the hardware library, the rule catalogue and the gate with its worker. Close it at the end."""

    options: Options = field(default_factory=Options)
    settings: Settings = ISOLATED
    #: The repository of the proposal that the session was opened for.
    root: Path | None = None

    @cached_property
    def library(self) -> Library:
        """Data sheets, shipped and the caller's own."""
        return open_library((*self.settings.hardware, *self.options.hardware), self.root)

    @cached_property
    def _configured(self) -> tuple[Catalogue, tuple[Change, ...]]:
        folders = tuple(Path(folder) for folder in (*self.settings.rules, *self.options.rules))
        catalogue = load_catalogue(KINDS, folders)
        if not self.settings.layers:
            return catalogue, ()
        from .config import in_force

        return in_force(catalogue, self.settings)

    @property
    def catalogue(self) -> Catalogue:
        """The rules in force."""
        return self._configured[0]

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the configuration changed in the rules."""
        return self._configured[1]

    @cached_property
    def today(self) -> date:
        """The day on which suppressions are judged: that of the review, else the day of the run."""
        return self.options.as_of or date.today()

    @cached_property
    def gate(self) -> Gate:
        """The two evaluators over the rules in force."""
        return Gate(self.catalogue, KINDS, self.options.evaluators)

    def close(self) -> None:
        """End the gate's worker, if one was started."""
        if "gate" in self.__dict__:
            self.gate.close()


@contextmanager
def session(options: Options | None = None, path: str | Path | None = None) -> Iterator[Session]:
    """A session under the configuration that counts for `path`, or, without one, that is named; closed at the end."""
    with Sessions(options or Options()) as opened:
        yield opened.at(path)


class Sessions:
    """Sessions by the configuration that they are under. Use it in a `with`: it owns them."""

    #: Open at a time: each has a worker process.
    MOST = 4

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[Path, Settings] = {}
        self._open: dict[object, Session] = {}

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def at(self, path: str | Path | None) -> Session:
        """The session for the proposal at `path`. Raises UsageError for a configuration that is wrong."""
        with ExitStack() as stack:
            settings = self._settings(path, stack)
            found = self._open.pop(settings.identity, None)
            if found is None:
                while len(self._open) >= self.MOST:
                    self._open.pop(next(iter(self._open))).close()
                found = Session(self._options, settings, repository_root(path) if path is not None else None)
                # Read now: the folders of a revision go away, and a wrong configuration is not one proposal's fault.
                _ = found.catalogue, found.library
        self._open[settings.identity] = found
        return found

    def _settings(self, path: str | Path | None, stack: ExitStack) -> Settings:
        options = self._options
        if options.settings is not None:
            return options.settings
        if path is None and options.base is None and options.config is None:
            return ISOLATED
        folder = Path(path or ".").absolute().parent
        known = self._known.get(folder)
        if known is None or (known.revision is not None and known.identity not in self._open):
            if len(self._known) > 1000:
                self._known.clear()
            known = self._known[folder] = self._found(path or ".", stack)
        return known

    def _found(self, path: str | Path, stack: ExitStack) -> Settings:
        from .config import load_settings, nearest_settings, seen_from_here, settings_from_revision

        options = self._options
        if options.base is not None:
            from tempfile import TemporaryDirectory

            into = Path(stack.enter_context(TemporaryDirectory(prefix="planproof-")))
            return settings_from_revision(options.base, path, into, config=options.config)
        try:
            return load_settings(options.config) if options.config is not None else nearest_settings(path)
        except PlanproofError as error:
            error.place = seen_from_here(error.place, options.config if options.config is not None else path)
            raise
