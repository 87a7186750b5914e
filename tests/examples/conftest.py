from __future__ import annotations

from collections.abc import Iterator

import pytest
from example_desk import AS_OF, Desk
from planproof.pipeline import Options, session


@pytest.fixture(scope="session")
def desk() -> Iterator[Desk]:
    with session(Options(as_of=AS_OF)) as opened:
        yield Desk(opened)
