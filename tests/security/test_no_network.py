"""Nothing of the package opens a socket, starts a program it was not asked for, or writes where it was not told to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "smallest" / "proposal.yaml"
QUICK = Path(__file__).resolve().parents[2] / "rules" / "bases" / "small.yaml"
#: Modules that could reach a network, or run what a file holds.
NETWORK = {"socket", "ssl", "http", "urllib", "ftplib", "smtplib", "asyncio", "requests", "httpx", "socketserver", "xmlrpc"}
RUNNING = {"pickle", "shelve", "code", "runpy", "ctypes"}
#: Runs a command line under an audit of what the interpreter does, and prints what must not be.
AUDITED = """
import sys
seen = []
def audit(event, arguments):
    if event.startswith("socket.") or event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.remove"):
        seen.append(f"{event} {arguments!r}"[:200])
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        # The interpreter's own cache of compiled modules, pipes by their number, and the null device.
        if not (isinstance(arguments[0], int) or str(arguments[0]).endswith((".pyc", "/dev/null"))):
            seen.append(f"written {arguments[0]!r}")
sys.addaudithook(audit)
from planproof.cli.main import main
try:
    main()
except SystemExit as end:
    status = end.code
print("\\n".join(f"SEEN {one}" for one in seen), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", str(EXAMPLE)),
        ("review", str(QUICK), "--work-limit", "5"),
        ("cluster", str(EXAMPLE)),
        ("facts", str(EXAMPLE)),
        ("rules", "list"),
        ("init",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_opens_a_socket_starts_a_program_or_writes_a_file(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, *arguments],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, env={**os.environ, "HOME": str(tmp_path / "no-home")},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("SEEN ")] == []
    assert list(tmp_path.iterdir()) == []


def test_the_audit_sees_a_socket(tmp_path: Path) -> None:
    """The test above can fail."""
    opens = "import socket; socket.socket().close()\ndef main(): sys.exit(0)"
    code = AUDITED.replace("from planproof.cli.main import main", opens)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert "SEEN socket.__new__" in done.stderr


def test_no_module_imports_what_reaches_a_network_or_runs_what_it_reads() -> None:
    wrong = []
    for path in sorted((ROOT / "engine").rglob("*.py")):
        names = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        wrong += [f"{path.name}: {name}" for name in sorted(set(names) & (NETWORK | RUNNING))]
    # Quoting of a path for a URI, which reaches nothing.
    assert [one for one in wrong if not one.endswith(": urllib")] == []
