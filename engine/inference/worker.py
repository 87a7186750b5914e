"""The process that runs durable_rules: receives rule sets and facts, answers with matches, and may die without harm.

It calls the engine's C module directly (the Python layer above it starts timers, swallows exceptions and gives up after
ten seconds) and only with definitions of the compiler. One rule set serves many evaluations: each has its own state,
`sid`, which the engine keeps apart from the others and which is deleted afterwards, so memory does not grow.

A message is a marshalled tuple: ("load", key, rows) or ("run", ticket, key, facts); an answer is a tuple too: (ticket,
None, matches) or (ticket, "what went wrong", ()).
"""

from __future__ import annotations

import itertools
import json
import marshal
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from ..facts.fact import Scalar
from .compiler import CLOSING, GO_KIND

FactRow = tuple[str, str, dict[str, Scalar]]
#: A rule set: its text, the fields to send of each kind, and for each definition its rule's id and antecedents' names.
GroupRow = tuple[str, dict[str, tuple[str, ...]], list[tuple[str, tuple[str, ...]]]]
#: A rule's id, and the position of the fact that each of its antecedents bound.
Hit = tuple[str, tuple[tuple[str, int], ...]]
Load = Callable[[str], list[GroupRow]]

_DONE, _NOT_HANDLED = 0, 1


class EngineError(Exception):
    """The engine refused a definition or a fact, or answered with something unexpected."""


class RuleSet:
    """One rule set in the engine; created when it is first needed."""

    def __init__(self, engine: Any, name: str, row: GroupRow) -> None:
        self.text, self.fields, self.definitions = row
        self._engine = engine
        self._name = name
        self._handle: int | None = None

    def create(self) -> None:
        """Make it in the engine, unless it is there."""
        if self._handle is None:
            self._handle = self._engine.create_ruleset(self._name, self.text)

    def evaluate(self, sid: str, facts: Sequence[FactRow]) -> list[Hit]:
        """The matches over `facts`; a rule of several definitions may match twice."""
        self.create()
        for position, (kind, path, values) in enumerate(facts):
            fields = self.fields.get(kind)
            if fields is not None:
                self._tell(sid, _row(sid, position, kind, path, values, fields))
        hits: list[Hit] = []
        state = self._tell(sid, f'{{"id": "go", "kind": "{GO_KIND}", "z0": 0, "sid": "{sid}"}}')
        started = None if state is None else self._engine.start_action_for_state(self._handle, state)
        if not started:  # nor may the state be deleted: the engine would free what it never set
            raise EngineError("the engine did not see its closing fact")
        message, closings = started[1], 0
        while message:
            [(name, bound)] = json.loads(message).items()
            if name == CLOSING:
                closings += 1
            else:
                rule_id, names = self.definitions[int(name[1:])]
                hits.append((rule_id, tuple((own, int(bound[f"a{i}"]["id"])) for i, own in enumerate(names))))
            message = self._engine.complete_and_start_action(self._handle, state)
        self._engine.delete_state(self._handle, sid)
        if closings != 1:
            raise EngineError(f"the engine saw its closing fact {closings} times")
        return hits

    def _tell(self, sid: str, text: str) -> int | None:
        code, state = self._engine.assert_fact(self._handle, text)
        if code == _DONE:
            return int(state)
        if code == _NOT_HANDLED:  # no definition has a use for this fact
            return None
        raise EngineError(f"the engine took a fact for one it has seen (code {code}): {text[:400]}")


def _row(sid: str, position: int, kind: str, path: str, values: Mapping[str, Scalar], fields: Sequence[str]) -> str:
    """A fact as the engine takes it, with the fields that the set looks at; in ASCII, so that any text survives.

    Its position is its identity. Left to itself the engine takes a hash of the content for that, and two facts for one
    where the hashes meet; those of the decimal numbers below 300,000 do not (32-bit FNV-1).
    """
    parts = [f'"id": "{position}", "kind": {quote(kind)}, "z0": 0, "sid": "{sid}"']
    for field in fields:
        value = path if field == "path" else values.get(field)
        if value is not None:
            parts.append(f"{quote(field)}: {quote(value) if isinstance(value, str) else value}")
    return "{" + ", ".join(parts) + "}"


def serve(
    receive: Callable[[], bytes | None],
    send: Callable[[bytes], None],
    timeout: float,
    probe: Callable[[str], None] | None = None,
    load: Load | None = None,
    first: Sequence[str] = (),
) -> None:
    """Answer messages until there are no more.

    Past `timeout` in one evaluation, with a margin, the process is killed by its own alarm, even where the engine hangs
    and nobody is left to kill it. `load` gives the rule sets of a key that were not sent; those of `first` are made before
    the first message, while the parent still reads. `probe` is called with the id of each rule before it is evaluated: the
    place to simulate what a broken engine does.
    """
    import durable_rules_engine as engine

    sets: dict[str, list[RuleSet]] = {}
    states = itertools.count(1)

    def keep(key: str, rows: Sequence[GroupRow]) -> list[RuleSet]:
        return sets.setdefault(key, [RuleSet(engine, f"{key}-{i}", row) for i, row in enumerate(rows)])

    def evaluate(key: str, facts: Sequence[FactRow]) -> list[Hit]:
        known = sets.get(key)
        hits: list[Hit] = []
        for one in keep(key, load(key) if load is not None else ()) if known is None else known:
            if probe is not None:
                for rule_id in dict.fromkeys(rule_id for rule_id, _ in one.definitions):
                    probe(rule_id)
            hits.extend(one.evaluate(str(next(states)), facts))
        return hits

    with _deadline(timeout + 2), suppress(Exception):  # what fails here fails again, and is reported, where it is asked for
        for key in first:
            for one in keep(key, load(key) if load is not None else ()):
                one.create()

    while (raw := receive()) is not None:
        message = marshal.loads(raw)  # bytes of our own parent, through its pipe  # nosec B302
        if message[0] == "load":
            keep(message[1], message[2])
            continue
        _, ticket, key, facts = message
        with _deadline(timeout + 2):
            try:
                answer: tuple[Any, ...] = (ticket, None, evaluate(key, facts))
            except Exception as error:  # whatever the engine raises is a fault, and is reported
                answer = (ticket, f"{type(error).__name__}: {error}", ())
        send(marshal.dumps(answer))


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """The end of this process after `seconds`, unless the block is left before."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
