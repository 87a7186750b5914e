"""Every limit of what is read, one by one: at it a file is read, one beyond it is refused with the limit in the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from planproof.document import limits, parse_document
from planproof.errors import PlanproofError
from planproof.inference.comments import MAX_COMMENTS, read_comments
from planproof.proposal import parse_proposal, read_profile

HERE = Path("/nowhere/p.yaml")


def document(text: str) -> None:
    parse_document(text.encode(), "p.yaml")


def proposal(text: str) -> None:
    parse_proposal(("planproof: 1\n" + text + "\n").encode(), "p.yaml", HERE)


def sized(count: int) -> str:
    """So many bytes, in scalars that are short enough."""
    line = "# " + "x" * 997 + "\n"
    whole, rest = divmod(count - 5, len(line))
    return "a: 1\n" + line * whole + ("#" * (rest - 1) + "\n" if rest else "")


def nested(depth: int) -> str:
    return "a: " + "[" * (depth - 1) + "]" * (depth - 1) + "\n"


def aliased(count: int) -> str:
    """`count` values, most of them by alias: the mapping, its list, lists of 99 in that, and what is left."""
    inside = 99
    repeats, rest = divmod(count - 2, inside + 1)
    first = "&a [" + ", ".join(["1"] * inside) + "]"
    return "a: [" + ", ".join([first, *["*a"] * (repeats - 1), *["1"] * rest]) + "]\n"


def rows(count: int) -> str:
    return "layer,microbatch,latency_ms\n" + "".join(f"{k % 1000},{1 + k // 1000},1\n" for k in range(count))


def nodes(count: int) -> str:
    return f"cluster: {{nodes: {{count: {count}, type: dgx_h100}}}}"


def plans(count: int) -> str:
    return "plans: [" + ", ".join(f"{{name: p{k}}}" for k in range(count)) + "]"


def stages(count: int) -> str:
    return "plans: [{name: p, stages: [" + ", ".join(["{devices: 1}"] * count) + "]}]"


def settings(count: int) -> str:
    rows = ", ".join(f"s{k}: 1" for k in range(count))
    return f"proposal: {{framework: {{name: megatron-lm, settings: {{{rows}}}}}}}"


def suppressions(count: int) -> None:
    text = "planproof: 1\n" + "# planproof: ignore INT001 reason=\"noise\" owner=me until=2027-01-01\n" * count
    read_comments(parse_document(text.encode(), "p.yaml"))


#: What is limited, a reader of so much of it, the limit, how it is written in the message.
LIMITS: dict[str, tuple[Callable[[int], object], int, str]] = {
    "bytes of a file": (lambda n: document(sized(n)), limits.MAX_BYTES, "1,?048,?576|1 MiB"),
    "levels": (lambda n: document(nested(n)), limits.MAX_DEPTH, "40"),
    "values after aliases": (lambda n: document(aliased(n)), limits.MAX_NODES, "100,?000"),
    "bytes of a scalar": (lambda n: document("a: " + "x" * n + "\n"), limits.MAX_SCALAR_BYTES, "65,?536|64 KiB"),
    "digits of a number": (lambda n: document("a: " + "1" * n + "\n"), limits.MAX_INTEGER_DIGITS, "40"),
    "layers": (lambda n: proposal(f"model: {{transformer: {{layers: {n}}}}}"), 10**5, "100,?000"),
    "nodes": (lambda n: proposal(nodes(n)), 10**9, "1,?000,?000,?000"),
    "devices a node": (lambda n: proposal(f"cluster: {{nodes: {{devices: {n}}}}}"), 1024, "1,?024"),
    "plans": (lambda n: proposal(plans(n)), 200, "200"),
    "stages": (lambda n: proposal(stages(n)), 4096, "4,?096"),
    "claims": (lambda n: proposal("claims: [" + ", ".join(["{text: a}"] * n) + "]"), 200, "200"),
    "settings": (lambda n: proposal(settings(n)), 2000, "2,?000"),
    "characters of a title": (lambda n: proposal("proposal: {title: " + "x" * n + "}"), 4000, "4,?000"),
    "rows of a profile": (lambda n: read_profile(rows(n).encode(), "p.csv"), 500, "500"),
    "suppressions": (suppressions, MAX_COMMENTS, "200"),
}


@pytest.mark.parametrize("what", LIMITS)
def test_at_the_limit_it_is_read_and_one_beyond_it_is_refused_with_the_limit(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planproof.proposal.profile.MAX_ROWS", 500)  # 100,000 rows take seconds to read
    read, most, written = LIMITS[what]
    read(most)
    with pytest.raises(PlanproofError) as raised:
        read(most + 1)
    error = raised.value
    assert error.exit_status == 2
    assert re.search(written, f"{error.message} {error.remedy}"), str(error)
    assert error.place.file is not None
    assert error.remedy
