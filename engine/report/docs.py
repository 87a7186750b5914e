"""The generated pages of docs/: `python -m planproof.report.docs DIR` writes all of them.

They are made from declarations and rule files, so they say what is in force; tests fail where the repository's differ.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from ..errors import PlanproofError
from ..facts import KINDS
from ..inference import load_catalogue
from ..proposal import schema
from .cli_page import cli_page
from .facts_page import facts_page
from .output import write_whole
from .rules_page import rules_page


def pages() -> Mapping[str, str]:
    """Every generated page: its path below docs/, and its text."""
    return {
        "cli.md": _commands(),
        "facts.md": facts_page(KINDS),
        "rules.md": rules_page(load_catalogue(KINDS).rules),
        "schema/proposal.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def _commands() -> str:
    """The page of the commands. They stand above this package, so it asks for them by name when it is run, as a program."""
    import click

    root = importlib.import_module("..cli.main", __package__).root
    return cli_page(root, click.Context(root, info_name="planproof"))


def write(folder: Path) -> None:
    """Write every page below `folder`."""
    for name, text in pages().items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text)


def main(arguments: list[str]) -> int:
    """Write the pages below the one folder that is named; 2 where that cannot be done."""
    if len(arguments) != 1:
        print("usage: python -m planproof.report.docs DIR", file=sys.stderr)
        return 2
    try:
        write(Path(arguments[0]))
    except PlanproofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
