"""The durable_rules evaluator: rule sets and facts go to one worker process, matches come back.

Vocabulary: a *ticket* is one evaluation that was handed in; its answer can be fetched later, so the parent works
meanwhile. Whatever goes wrong in the worker is an EngineFault, which names the rules that did it: the rules of the
failing evaluation are run again, one a set, each in a fresh worker. The engine is imported in the worker only.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from ..facts.fact import Fact
from .channel import Broken, Channel, ForkedChannel, Receive, Send, SpawnedChannel, can_fork
from .reference import Bound

if TYPE_CHECKING:
    from .compiler import Definition, Group
    from .worker import GroupRow, Load

Matches = set[tuple[str, Bound]]
Probe = Callable[[str], None]
Definitions: TypeAlias = "Sequence[Definition] | Callable[[], Sequence[Definition]]"

#: Evaluations after which a worker is replaced: a bound on whatever the engine may leak.
LIFETIME = 2000


class EngineFault(Exception):
    """The engine died, hung or refused. `rules` are those that do it alone, or all that were evaluated."""

    def __init__(self, reason: str, rules: tuple[str, ...], facts: tuple[Fact, ...], alone: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rules = rules
        self.facts = facts
        self.alone = alone


def available() -> bool:
    """Whether durable_rules can be imported here (its C module must be built for this Python)."""
    try:
        # Importing it is the question; nothing of it is used here.
        import durable_rules_engine  # noqa: F401  # whether it can be imported is the question
    except ImportError:
        return False
    return True


def version() -> str:
    """The version of durable_rules."""
    from importlib.metadata import version as installed

    return installed("durable_rules")


class DurableEvaluator:
    """Evaluates named sets of definitions in a worker that is started when needed, reused, and replaced.

    A set may be given by a function that makes its definitions; a forked worker calls it, and the parent need not. The sets
    `first` are made as the worker starts, the others when they are first asked for.
    """

    def __init__(
        self,
        sets: Mapping[str, Definitions],
        *,
        timeout: float = 20.0,
        lifetime: int = LIFETIME,
        probe: Probe | None = None,
        spawn: bool | None = None,
        first: Sequence[str] = (),
    ) -> None:
        self._sets = sets
        self._first = tuple(first)
        self._timeout = timeout
        self._lifetime = lifetime
        self._probe = probe
        self._spawn = not can_fork() if spawn is None else spawn
        self._channel: Channel | None = None
        self._owner = 0
        self._used = 0
        self._next = 0
        self._waiting: dict[int, tuple[str, tuple[Fact, ...]]] = {}
        self._answers: dict[int, Matches] = {}

    def start(self) -> None:
        """Start the worker now, so that it is ready when the first facts are. Raises EngineFault."""
        try:
            self._ready()
        except Broken as error:
            self.close()
            raise EngineFault(str(error), (), (), False) from None

    def submit(self, key: str, facts: Sequence[Fact]) -> int:
        """Hand in an evaluation of the set `key` over distinct `facts`; returns its ticket. Raises EngineFault."""
        ticket, self._next = self._next, self._next + 1
        entry = (key, tuple(facts))
        try:
            channel = self._ready()
            self._waiting[ticket] = entry
            self._used += 1
            channel.send(_run(ticket, key, facts), self._timeout)
        except Broken as error:
            self._waiting.setdefault(ticket, entry)
            self._fail(str(error))
        return ticket

    def result(self, ticket: int) -> Matches:
        """The matches of a ticket, each once: rule id and positions of the facts bound. Raises EngineFault."""
        while ticket not in self._answers:
            self._take()
        return self._answers.pop(ticket)

    def close(self) -> None:
        """End the worker. The next evaluation starts another."""
        if self._channel is not None and self._owner == os.getpid():
            self._channel.close()
        self._forget()

    def _forget(self) -> None:
        self._channel = None
        self._waiting.clear()
        self._answers.clear()

    def _ready(self) -> Channel:
        """The worker there is, or a new one where there is none or its time is over. Raises Broken."""
        if self._channel is not None and self._owner != os.getpid():
            self._forget()
        if self._channel is not None and self._used >= self._lifetime:
            while self._waiting:
                self._take()
            self._channel.close()
            self._channel = None
        if self._channel is None:
            self._channel = self._open(self._first)
            self._owner, self._used = os.getpid(), 0
            for key in self._sets if self._spawn else ():
                self._channel.send(_load(key, self._rows(key)), self._timeout)
        return self._channel

    def _take(self) -> None:
        """Take one answer from the worker."""
        assert self._channel is not None
        try:
            raw = self._channel.receive(self._timeout)
        except Broken as error:
            self._fail(str(error))
        if raw is None:
            self._fail(f"gave no answer in {self._timeout:g} s")
        ticket, reason, matches = marshal.loads(raw)  # bytes of our own worker, through its pipe  # nosec B302
        if reason is not None:
            self._fail(str(reason), ticket)
        del self._waiting[ticket]
        self._answers[ticket] = set(matches)

    def _fail(self, reason: str, ticket: int | None = None) -> NoReturn:
        """Raise EngineFault for the oldest evaluation without an answer, having found the rules that fail alone."""
        key, facts = self._waiting[min(self._waiting) if ticket is None else ticket]
        self.close()
        by_rule: dict[str, list[Definition]] = {}
        for definition in self._definitions(key):
            by_rule.setdefault(definition.rule_id, []).append(definition)
        guilty = {rule: cause for rule, items in sorted(by_rule.items()) if (cause := self._fails_alone(items, facts))}
        rules = tuple(guilty or sorted(by_rule))
        seen = {kind for rule in rules for definition in by_rule[rule] for kind in definition.fields}
        raise EngineFault(
            "; ".join(sorted(set(guilty.values()))) or reason,
            rules,
            tuple(fact for fact in facts if fact.kind in seen),
            bool(guilty),
        )

    def _fails_alone(self, items: Sequence[Definition], facts: Sequence[Fact]) -> str | None:
        """What goes wrong where the definitions of one rule are evaluated in a fresh worker, each in its own set."""
        from .compiler import make_group

        try:
            channel = self._open()
        except Broken as error:
            return str(error)
        try:
            channel.send(_load("", [_row(make_group([definition])) for definition in items]), self._timeout)
            channel.send(_run(0, "", facts), self._timeout)
            raw = channel.receive(self._timeout)
            return f"gave no answer in {self._timeout:g} s" if raw is None else marshal.loads(raw)[1]  # as above  # nosec B302
        except Broken as error:
            return str(error)
        finally:
            channel.close()

    def _definitions(self, key: str) -> Sequence[Definition]:
        found = self._sets[key]
        return found() if callable(found) else found

    def _rows(self, key: str) -> list[GroupRow]:
        from .compiler import group

        return [_row(one) for one in group(self._definitions(key))]

    def _open(self, first: Sequence[str] = ()) -> Channel:
        if self._spawn:
            return SpawnedChannel(_serve, self._timeout, self._probe)
        return ForkedChannel(partial(_serve, timeout=self._timeout, probe=self._probe, load=self._rows, first=first))


def _serve(
    receive: Receive,
    send: Send,
    timeout: float,
    probe: Probe | None = None,
    load: Load | None = None,
    first: Sequence[str] = (),
) -> None:
    from .worker import serve  # not needed in the parent

    serve(receive, send, timeout, probe, load, first)


def _row(one: Group) -> GroupRow:
    return one.text, dict(one.fields), [(definition.rule_id, definition.names) for definition in one.definitions]


def _load(key: str, rows: Sequence[GroupRow]) -> bytes:
    return marshal.dumps(("load", key, list(rows)))


def _run(ticket: int, key: str, facts: Sequence[Fact]) -> bytes:
    return marshal.dumps(("run", ticket, key, [(fact.kind, fact.path, dict(fact.values)) for fact in facts]))
