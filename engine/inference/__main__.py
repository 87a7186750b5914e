"""`python -m planproof.inference`: write the compiled file of the shipped rules, after a rule has changed."""

from __future__ import annotations

from pathlib import Path

from ..facts import KINDS
from .catalogue import load_catalogue, rules_root
from .compiled import write
from .rule import PHASES


def main() -> None:
    """Read every shipped rule from its file and write them as one."""
    root = rules_root()
    if not isinstance(root, Path):
        raise SystemExit("the rules do not lie in a folder that can be written")
    rules = load_catalogue(KINDS, compiled=False).rules
    print(f"{len(rules)} rules in {write(root, rules, [phase.value for phase in PHASES]).name}")


if __name__ == "__main__":
    main()
