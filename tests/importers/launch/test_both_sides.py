"""Each constraint that a launch file can break, from the file: what its framework refuses is refused, what it takes is not.

Rows are worked out from the frameworks' own checks, as docs/coverage.yaml cites them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from planproof.errors import InputError
from planproof.inference import Severity
from planproof.pipeline import Options, Session, examine, session
from planproof.proposal.launching import load_launch

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "constraints"
MEGATRON: dict[str, Any] = yaml.safe_load((DATA / "megatron.yaml").read_text(encoding="utf-8"))
OTHERS: dict[str, Any] = yaml.safe_load((DATA / "others.yaml").read_text(encoding="utf-8"))
COVERAGE: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "coverage.yaml").read_text(encoding="utf-8"))
Found = dict[str, tuple[str, int | None]]


class Bench:
    """Launch files judged on their own, or with a cluster file beside them; each text once."""

    def __init__(self, opened: Session, folder: Path) -> None:
        self.opened, self.known = opened, dict[tuple[str, str, bool], Found]()
        self.alone, self.beside = folder / "alone", folder / "beside"
        self.alone.mkdir()
        self.beside.mkdir()
        (self.beside / "cluster.yaml").write_text(json.dumps(OTHERS["cluster"]))

    def __call__(self, name: str, text: str, *, cluster: bool = False) -> Found:
        """The rules that refuse a file, or the code of the error that reads it no further, each with message and line."""
        key = (name, text, cluster)
        if key not in self.known:
            try:
                self.known[key] = self._judged(name, text, (self.beside if cluster else self.alone) / name)
            except InputError as error:
                self.known[key] = {error.code: (error.message, error.place.line)}
        return self.known[key]

    def _judged(self, name: str, text: str, path: Path) -> Found:
        loaded = load_launch(text.encode(), name, path, bare=True)
        assert loaded is not None, text
        found = examine(loaded, self.opened).findings
        return {one.rule_id: (one.message, loaded.place(one.path).line) for one in found if one.severity is Severity.ERROR}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with session(Options(evaluators="reference")) as opened:
        yield Bench(opened, tmp_path_factory.mktemp("constraints"))


def megatron_base(name: str) -> str:
    """The arguments of a base; one that begins with @other stands on it."""
    below, _, rest = str(MEGATRON["bases"][name]).partition(", ")
    return f"{megatron_base(below[1:])}, {rest}" if below.startswith("@") else MEGATRON["bases"][name]


def script(*changes: str) -> str:
    """A launch script with the arguments of a base and changes to it, one a line."""
    arguments: dict[str, str] = {}
    for part in re.split(r",\s+", ", ".join(change for change in changes if change)):
        name, _, value = part.strip().partition(" ")
        arguments.pop(name.removeprefix("~"), None)
        if not name.startswith("~"):
            arguments[name] = value
    exported = [f"export {name}={value}" for name, value in arguments.items() if name.isupper()]
    words = [
        f"--{name} {' '.join(map(shlex.quote, value.split()))}".rstrip()
        for name, value in arguments.items() if not name.isupper()
    ]  # fmt: skip
    order = sorted(words, key=lambda word: not word.startswith(("--nproc-per-node", "--nnodes")))
    return "\n".join([*exported, "torchrun " + " \\\n  ".join([*order[:2], "pretrain_gpt.py", *order[2:]]), ""])


def document(file: str, keys: dict[str, Any]) -> str:
    """Dotted keys as TOML, or as JSON, which YAML is too."""
    if file.endswith(".toml"):
        tables: dict[str, list[str]] = {}
        for key, value in keys.items():
            table, _, name = key.partition(".")
            tables.setdefault(table, []).append(f"{name} = {json.dumps(value)}")
        return "\n".join(line for table, lines in tables.items() for line in (f"[{table}]", *lines)) + "\n"
    tree: dict[str, Any] = {}
    for key, value in keys.items():
        here, *parts = tree, *key.split(".")
        for part in parts[:-1]:
            here = here.setdefault(part, {})
        here[parts[-1]] = value
    return json.dumps(tree, indent=1) + "\n"


@pytest.mark.parametrize("row", MEGATRON["rows"], ids=lambda row: f"{row['line']}-{row['rule']}")
def test_a_constraint_of_megatron_from_both_sides(row: dict[str, Any], bench: Bench) -> None:
    base, rule, cluster = megatron_base(row["base"]), row["rule"], bool(row.get("cluster"))
    found = bench("train.sh", script(base, row["refused"]), cluster=cluster)
    assert rule in found, sorted(found)
    assert found[rule][1] is not None
    assert bench("train.sh", script(base, row["accepted"]), cluster=cluster) == {}


@pytest.mark.parametrize("row", OTHERS["rows"], ids=lambda row: f"{row['line']}-{row['rule']}-{row['base']}")
def test_a_constraint_of_another_framework_from_both_sides(row: dict[str, Any], bench: Bench) -> None:
    base, rule, cluster = OTHERS["bases"][row["base"]], row["rule"], bool(row.get("cluster"))
    found = bench(base["file"], document(base["file"], base["keys"] | row["refused"]), cluster=cluster)
    assert rule in found, sorted(found)
    assert found[rule][1] is not None
    assert bench(base["file"], document(base["file"], base["keys"] | row["accepted"]), cluster=cluster) == {}


def test_every_rule_of_a_pack_that_a_file_can_break_is_tried_from_one() -> None:
    """The rest cannot be said in the file: what it depends on is the device, or a choice of the plan that no file spells."""
    rules = {rule for section in COVERAGE.values() for one in section["entries"].values() for rule in one.get("rules", ())}
    general = ("SHP", "EVI", "MAP", "MEM", "SCH", "PRO", "OUT", "CLM", "NET", "INT")
    packs = {rule for rule in rules if not rule.startswith(general)}
    tried = {row["rule"] for table in (MEGATRON, OTHERS) for row in table["rows"]}
    assert packs - tried == NOT_FROM_A_FILE


#: A warning; a switch of the training loop; a plan's schedule or pipeline, which no file of that framework can ask for.
NOT_FROM_A_FILE = {"MEG046", "DSP012", "NAN003", "LLF004"}
