"""No input makes a reader fail in any way but one: an error with a message, and, where there is one, a place and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fuzz_inputs import ALLOWED, READERS, changed, drawn, proposal, spoilt, written
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import PlanproofError
from planproof.pipeline import Options, Session, examine
from planproof.proposal import parse_proposal

#: Drawn by seed, as `bench/fuzz.py` draws: to shrink what a generator asked for says nothing of the input.
RNGS = st.builds(Random, st.integers(0, 2**32))
CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=30)
@given(rng=RNGS)
def test_a_reader_reads_or_refuses(reader: str, rng: Random) -> None:
    raw = drawn(rng, reader)
    try:
        READERS[reader][1](raw)
    except ALLOWED as error:
        assert str(error)
        assert len(str(error)) < 5000


@pytest.fixture(scope="module")
def opened() -> Iterator[Session]:
    made = Session(Options())
    yield made
    made.close()


@settings(max_examples=12)
@given(rng=RNGS)
def test_whole_proposals_are_judged_or_refused(opened: Session, rng: Random) -> None:
    near = written(rng, changed(rng, proposal(rng)))
    where = Path("/nowhere/p.yaml")
    # What is well formed is judged, whatever is found.
    examine(parse_proposal(written(rng, proposal(rng)), "p.yaml", where), opened)
    for raw in (near, spoilt(rng, near)):
        try:
            examine(parse_proposal(raw, "p.yaml", where), opened)
        except PlanproofError as error:
            assert not error.code.startswith("internal"), str(error)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_that_once_was_a_fault_is_read_or_refused(path: Path) -> None:
    """`corpus/READER/NAME`: what fuzzing found, kept for good."""
    try:
        READERS[path.parent.name][1](path.read_bytes())
    except ALLOWED as error:
        assert str(error)
