"""An engine that dies, hangs or refuses is a fault with the rule's name; the next evaluation works; nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planproof.errors import InternalFault
from planproof.inference import PHASES, Catalogue, Gate, Phase, durable
from planproof.inference.compiler import Definition, compile_rule
from planproof.inference.durable import DurableEvaluator, EngineFault
from rule_texts import KINDS, rule
from test_gate import group, link

pytestmark = [
    pytest.mark.skipif(not durable.available(), reason="durable_rules is not installed for this Python"),
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc"),
]

FACTS = [group(), link()]


def children() -> set[int]:
    """Processes that this one started and that still exist, zombies included."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
            spawning = b"resource_tracker" in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and not spawning:
            found.add(int(entry.name))
    return found


@pytest.fixture(autouse=True)
def before() -> Iterator[set[int]]:
    """What other tests, or whoever runs them, have started; that no child stays beside those is promised by every test here."""
    before = children()
    yield before
    assert children() <= before


def segfault(rule_id: str) -> None:
    if rule_id == "MAP005":
        os.kill(os.getpid(), signal.SIGSEGV)


def hang(rule_id: str) -> None:
    if rule_id == "MAP005":
        time.sleep(60)


def refuse(rule_id: str) -> None:
    if rule_id == "MAP005":
        raise ValueError("error code 303")


def two() -> Catalogue:
    return Catalogue((rule(), rule(id="MAP005")), KINDS)


@pytest.mark.parametrize(
    ("probe", "reason"),
    [(segfault, "died of SIGSEGV"), (hang, "gave no answer in 0.5 s"), (refuse, "ValueError: error code 303")],
)
def test_fault_names_the_rule_and_its_facts_and_the_next_evaluation_works(probe: Callable[[str], None], reason: str) -> None:
    broken = [True]

    def sometimes(rule_id: str) -> None:
        if broken:
            probe(rule_id)

    with Gate(two(), KINDS, timeout=0.5, probe=sometimes) as gate:
        with pytest.raises(InternalFault) as caught:
            gate.run(PHASES, FACTS)
        assert reason in str(caught.value)
        assert " on MAP005:" in str(caught.value)
        assert "{group /plans/p" in str(caught.value)
        assert caught.value.exit_status == 2
        broken.clear()
        assert [finding.rule_id for finding in gate.run(PHASES, FACTS).findings] == ["MAP004", "MAP005"]


def test_fault_that_needs_two_rules_names_both() -> None:
    seen: list[str] = []

    def together(rule_id: str) -> None:
        seen.append(rule_id)
        if len(set(seen)) == 2:
            os.kill(os.getpid(), signal.SIGABRT)

    with Gate(two(), KINDS, probe=together) as gate, pytest.raises(InternalFault) as caught:
        gate.run(PHASES, FACTS)
    assert "on MAP004, MAP005 together: it died of SIGABRT" in str(caught.value)


def test_fault_in_the_middle_of_a_batch_gives_no_outcome() -> None:
    with Gate(two(), KINDS, probe=segfault) as gate, pytest.raises(InternalFault, match="MAP005"):
        gate.run_many(PHASES, [FACTS] * 50)


def test_worker_killed_between_evaluations_is_a_fault_once(before: set[int]) -> None:
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    expected = engine.result(engine.submit("x", FACTS))
    (worker,) = children() - before
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(EngineFault, match="died of SIGKILL"):
        engine.result(engine.submit("x", FACTS))
    assert engine.result(engine.submit("x", FACTS)) == expected
    engine.close()


def test_refused_definition_names_its_rule() -> None:
    good = compile_rule(rule(), KINDS)
    bad = Definition("BAD001", ({"go": {"kind": "*go*"}}, {"a0": {"$wat": {"x": 1}}}), ("a",), {"link": frozenset({"x"})})
    engine = DurableEvaluator({"x": [*good, bad]})
    with pytest.raises(EngineFault) as caught:
        engine.result(engine.submit("x", FACTS))
    assert caught.value.rules == ("BAD001",)
    assert caught.value.alone
    engine.close()


def test_worker_is_replaced_after_its_lifetime_and_no_answer_is_lost(before: set[int]) -> None:
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)}, lifetime=7)
    tickets = [engine.submit("x", FACTS) for _ in range(40)]
    assert len(children() - before) == 1
    assert {len(engine.result(ticket)) for ticket in tickets} == {1}
    engine.close()
    engine.close()


def test_large_batches_do_not_block() -> None:
    facts = [link(f"l{i}" + "x" * 500) for i in range(300)] + [
        group(slowest_link=f"l{i}" + "x" * 500, plan=f"p{i}") for i in range(300)
    ]
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    tickets = [engine.submit("x", facts) for _ in range(8)]
    assert [len(engine.result(ticket)) for ticket in tickets] == [300] * 8
    engine.close()


def test_spawned_worker_answers_like_a_forked_one() -> None:
    definitions = {"x": compile_rule(rule(), KINDS)}
    forked, spawned = DurableEvaluator(definitions, spawn=False), DurableEvaluator(definitions, spawn=True)
    try:
        assert spawned.result(spawned.submit("x", FACTS)) == forked.result(forked.submit("x", FACTS)) != set()
    finally:
        forked.close()
        spawned.close()


def test_spawned_worker_that_dies_is_a_fault() -> None:
    engine = DurableEvaluator({"x": compile_rule(rule(id="MAP005"), KINDS)}, spawn=True, probe=segfault)
    with pytest.raises(EngineFault, match="died of signal 11"):
        engine.result(engine.submit("x", FACTS))
    engine.close()


def test_fork_of_the_parent_does_not_end_its_worker() -> None:
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    expected = engine.result(engine.submit("x", FACTS))
    pid = os.fork()
    if pid == 0:
        engine.close()
        os._exit(0 if engine.result(engine.submit("x", FACTS)) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert engine.result(engine.submit("x", FACTS)) == expected
    engine.close()


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from rule_texts import KINDS, rule
from test_faults import FACTS
from planproof.inference import PHASES, Catalogue, Gate
import threading
gate = Gate(Catalogue((rule(),), KINDS), KINDS)
assert gate.run(PHASES, FACTS).findings
assert threading.active_count() == 1
from test_faults import children
print(*children(), flush=True)
{end}
"""


def run_script(end: str) -> tuple[int, str, str]:
    script = SCRIPT.format(tests=os.path.dirname(__file__), end=end)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)", "import os; os._exit(0)"])
def test_worker_ends_with_its_parent_however_that_ends(end: str) -> None:
    _, out, err = run_script(end)
    (line,) = out.splitlines()
    assert gone(int(line)), err


def test_engine_is_imported_in_the_worker_only_when_needed() -> None:
    code = (
        "import sys, planproof.inference as i; i.durable; "
        "print([m for m in sys.modules if m.startswith(('durable', 'multiprocessing', 'numpy'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_reference_evaluator_serves_alone_where_the_engine_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "durable_rules_engine", None)
    with Gate(Catalogue((rule(),), KINDS), KINDS) as gate:
        assert set(gate.evaluators) == {"reference"}
        assert gate.run_phase(Phase.MAPPING, FACTS)


def test_any_value_of_a_fact_reaches_the_engine_unharmed() -> None:
    awkward: list[Any] = [
        "",
        "8",
        "true",
        "null",
        "a\"b\\'",
        "{}",
        "\u0000",
        "\ud800",
        "ü€😀",
        "x" * 100_000,
        "\r\n\t",
        "go",
        "*go*",
    ]
    facts = [fact for i, text in enumerate(awkward) for fact in (group(slowest_link=text, plan=f"p{i}"), link(text))]
    with Gate(Catalogue((rule(),), KINDS), KINDS) as gate:
        assert len(gate.run_phase(Phase.MAPPING, facts)) == len(awkward)
