"""One session for all rules, and every judgement kept: most examples are the same few bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest
from planproof.facts import Fact
from planproof.inference import Finding, Phase
from planproof.pipeline import Options, Session, judge, session
from planproof.proposal import parse_proposal


@dataclass
class Bench:
    """Judges proposals as the pipeline does, with both evaluators, and remembers what it found."""

    session: Session
    known: dict[object, tuple[Finding, ...]] = field(default_factory=dict)

    def findings(self, raw: bytes, path: Path, phase: Phase, extra: Sequence[Fact]) -> tuple[Finding, ...]:
        judged = phase if phase in (Phase.NETWORK, Phase.OUTCOME) else None
        key = (raw, path, judged, tuple(fact.key for fact in extra))
        if key not in self.known:
            self.known[key] = judge(parse_proposal(raw, path.name, path), self.session, phase, extra)
        return self.known[key]

    def __call__(self, raw: bytes, path: Path, phase: Phase, extra: Sequence[Fact]) -> set[str]:
        return {finding.rule_id for finding in self.findings(raw, path, phase, extra)}


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    with session(Options(as_of=date(2026, 12, 1))) as opened:
        yield Bench(opened)
