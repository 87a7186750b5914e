"""`planproof facts FILE`: what the rules see."""

from __future__ import annotations

from typing import Any

import click

from .completion import fact_kinds
from .main import options_of, shared_options


@click.command()
@click.argument("file", type=click.Path())
@click.option("--kind", "kinds", metavar="KIND", multiple=True, shell_complete=fact_kinds, help="Only facts of this kind.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="One line a fact, or JSON.",
)
@shared_options(search=False)
def facts(file: str, kinds: tuple[str, ...], format_: str, **values: Any) -> None:
    """Print the facts that rules see for the proposal FILE, concluded ones included, without a search.

    docs/facts.md says what each kind and field means.
    """
    from ..errors import UsageError
    from ..facts import KINDS, show
    from ..pipeline import examine, session
    from ..proposal import load_proposal
    from ..report.escape import visible

    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"there is no fact kind '{kind}'", remedy=f"Known kinds: {', '.join(sorted(KINDS))}.")
    with session(options_of(values), file) as opened:
        found = [fact for fact in examine(load_proposal(file), opened).facts if not kinds or fact.kind in kinds]
    if format_ == "json":
        from ..report.review_json import json_text

        click.echo(json_text([{"kind": fact.kind, "path": fact.path, **fact.values} for fact in found]), nl=False)
        return
    for fact in found:
        fields = ", ".join(f"{name} {show(name, value)}" for name, value in fact.values.items())
        click.echo(visible(f"{fact.kind} {fact.path or '/'}: {fields}"))
