"""`planproof estimate FILE`: memory and time of stated plans, without a verdict."""

from __future__ import annotations

from typing import Any

import click

from .main import options_of, shared_options


@click.command()
@click.argument("file", type=click.Path())
@click.option("--plan", "plans", metavar="NAME", multiple=True, help="A plan; twice for two side by side. Default: all of them.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Tables, or JSON."
)
@shared_options(search=False)
def estimate(file: str, plans: tuple[str, ...], format_: str, **values: Any) -> int:
    """Print the memory and time ledgers of the plans of FILE, each number with its interval. No search, no verdict.

    Exit status 1 where what is missing keeps a plan from being priced: the findings say what.
    """
    from ..pipeline import price_plans, session
    from ..proposal import load_proposal
    from ..report.escape import terminal
    from ..report.estimate import estimate_json, estimate_text
    from ..report.review_json import json_text

    with session(options_of(values), file) as opened:
        priced, refused = price_plans(load_proposal(file), opened, plans)
    if format_ == "json":
        click.echo(json_text(estimate_json(priced)), nl=False)
    elif priced:
        click.echo(estimate_text(priced), nl=False)
    for name, reasons in refused:
        click.echo(terminal(f"plan '{name}' is not priced: {'; '.join(reasons)}"), err=True)
    return 1 if refused else 0
