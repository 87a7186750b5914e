"""What no single module can promise: where imports point, what `lint` does not pay for, what no code may know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from planproof.facts import KINDS

ENGINE = Path(__file__).resolve().parent.parent / "engine"
#: A package may import from itself and from those before it. "" is the package's own `__init__`.
ORDER = (
    "frozen", "errors", "document", "files", "quantity", "plan", "hardware", "cluster", "model", "cost", "calibration",
    "search", "importers", "proposal", "facts", "inference", "config", "decision", "report", "session", "pipeline", "", "cli",
    "__main__",
)  # fmt: skip
#: Third party -> where it may be imported when a module is. Elsewhere, and for None, only inside a function.
SLOW: dict[str, str | None] = {"numpy": "search/", "networkx": "cluster/graph", "jinja2": "report/", "scipy": None}
TOP = {
    ".ci", ".gitignore", ".pre-commit-hooks.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md",
    "action.yml", "bench", "docs", "engine", "examples", "SECURITY.md", "pyproject.toml", "rules", "templates", "tests",
}  # fmt: skip
MODULES = sorted(ENGINE.rglob("*.py"))
NAMES = [path.relative_to(ENGINE).as_posix() for path in MODULES]
TREES = {
    name: ast.parse(path.read_text(encoding="utf-8"), name) for name, path in zip(NAMES, MODULES, strict=True)
}
#: A rule's id. The loader's own message gives one as an example of the form.
RULE_ID = re.compile(r"\b[A-Z]{3}[0-9]{3}\b")
ID_AS_EXAMPLE = {("inference/loader.py", "MAP004")}
#: Where a severity may be looked at: where rules are read and gated, where findings are shown, and the exit status.
SEVERITY = ("inference/", "report/", "cli/")


def own(name: str) -> str:
    """The top-level package or module that a file of engine/ belongs to."""
    return name.partition("/")[0].removesuffix(".py").replace("__init__", "")


def imported(name: str, node: ast.ImportFrom) -> list[str]:
    """The top-level packages that a relative import reaches."""
    here = name.split("/")[:-1]
    base = here[: len(here) - node.level + 1] + (node.module.split(".") if node.module else [])
    return [base[0]] if base else [alias.name for alias in node.names]


def at_import_time(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when the module is imported: not those in functions, nor those for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from at_import_time(other)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import_time(node)


def outside(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names of the absolute imports of a statement."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    return [] if node.level else [(node.module or "").split(".")[0]]


def code_texts(tree: ast.Module) -> Iterator[str]:
    """Every text constant that is no docstring, and every name."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_the_order_names_every_package_and_no_other() -> None:
    assert {own(name) for name in NAMES} | {"__main__"} == set(ORDER)


def test_imports_point_one_way_and_are_relative() -> None:
    wrong = []
    for name, tree in TREES.items():
        rank = ORDER.index(own(name))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                above = [top for top in imported(name, node) if ORDER.index(top) > rank]
                wrong += [f"{name}:{node.lineno}: imports {top}, which is above it" for top in above]
            elif isinstance(node, ast.Import | ast.ImportFrom) and "planproof" in outside(node):
                wrong.append(f"{name}:{node.lineno}: imports planproof by its name")
    assert wrong == []


def test_slow_libraries_are_imported_at_import_time_only_where_they_belong() -> None:
    wrong = []
    for name, tree in TREES.items():
        for node in at_import_time(tree):
            for library in set(outside(node)) & set(SLOW):
                allowed = SLOW[library]
                if allowed is None or not name.startswith(allowed):
                    wrong.append(f"{name}:{node.lineno}: {library}")
    assert wrong == []


def test_lint_of_a_proposal_imports_no_slow_library(root: Path) -> None:
    code = f"""
import sys
from planproof.pipeline import examine, session
from planproof.proposal import load_proposal
with session() as opened:
    found = examine(load_proposal({str(root / "rules" / "bases" / "small.yaml")!r}), opened)
assert found.facts and opened.catalogue.rules
print(*sorted(set({sorted(SLOW)!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_no_code_names_a_rule() -> None:
    named = {(name, rule) for name, tree in TREES.items() for text in code_texts(tree) for rule in RULE_ID.findall(text)}
    assert named == ID_AS_EXAMPLE


def is_the_word_error(node: ast.expr) -> bool:
    """Whether an operand of a comparison is the severity, alone or among others."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(is_the_word_error(item) for item in node.elts)
    return isinstance(node, ast.Constant) and node.value == "error"


def test_no_severity_is_tested_to_stop_something() -> None:
    wrong = []
    for name, tree in TREES.items():
        if name.startswith(SEVERITY):
            continue
        for node in ast.walk(tree):
            asked = isinstance(node, ast.Attribute) and (node.attr == "severity" or "Severity" in ast.unparse(node.value))
            if isinstance(node, ast.Compare):
                operands = [node.left] if isinstance(node.ops[0], ast.Eq | ast.NotEq) else []
                asked = any(map(is_the_word_error, [*operands, *node.comparators]))
            if asked:
                wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_a_module_says_what_it_is_for() -> None:
    assert [name for name, tree in TREES.items() if tree.body and not ast.get_docstring(tree)] == []


def test_a_module_stays_small() -> None:
    lines = {name: (ENGINE / name).read_text(encoding="utf-8").count("\n") for name in NAMES}
    assert {name: count for name, count in lines.items() if count > 500} == {}


def test_every_kind_of_fact_that_rules_do_not_conclude_is_made_by_a_module() -> None:
    made = {
        node.args[0].value
        for name, tree in TREES.items() if name.startswith("facts/from_")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fact"
        and node.args and isinstance(node.args[0], ast.Constant)
    }  # fmt: skip
    assert made == {kind.name for kind in KINDS.values() if kind.origin != "rules"}


def test_nothing_lies_at_the_top_that_is_not_listed(tracked: tuple[str, ...]) -> None:
    assert {name.partition("/")[0] for name in tracked} <= TOP


#: What no file may hold, written so that this file does not hold it either.
FORBIDDEN = {
    "an unfinished mark": r"\b(T[O]DO|F[I]XME|X[X]X|NotImplemented[E]rror)\b",
    "a path of one machine": r"(?<![\w.~])/(work|root|home|Users|opt|mnt)/[a-z_]",
    "a package registry": r"(?i)(p[y]pi\.org|python[h]osted|/simple/?\s|--(extra-)?index[-]url|--find[-]links|registry\.np[m])",
    "a lock of addresses": r"(?i)\bresolution-markers\b",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str, tracked: tuple[str, ...], root: Path) -> None:
    pattern, found = re.compile(FORBIDDEN[what]), []
    for name in tracked:
        text = (root / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


def test_no_lock_file_is_kept(tracked: tuple[str, ...]) -> None:
    assert [name for name in tracked if name.endswith((".lock", "lock.json", "lock.yaml"))] == []
