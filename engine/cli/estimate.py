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
@click.option(
    "--timeline", "timeline", metavar="FILE", type=click.Path(),
    help="Also write the simulated step of the first plan: .json for Perfetto (Chrome trace), or .svg.",
)
@shared_options(search=False)
def estimate(file: str, plans: tuple[str, ...], format_: str, timeline: str | None, **values: Any) -> int:
    """Print the memory and time ledgers of the plans of FILE, each number with its interval. No search, no verdict.

    Exit status 1 where what is missing keeps a plan from being priced: the findings say what.
    """
    from ..pipeline import price_plans, session
    from ..proposal import load_proposal
    from ..report.escape import terminal
    from ..report.estimate import estimate_json, estimate_text
    from ..report.review_json import json_text

    if timeline is not None:
        from ..report.timeline import ending_of

        ending_of(timeline)
    with session(options_of(values), file) as opened:
        loaded = load_proposal(file)
        priced, refused = price_plans(loaded, opened, plans)
    if timeline is not None and priced:
        from ..report.output import write_whole
        from ..report.timeline import render_timeline
        from ..report.timeline import timeline as timeline_of

        write_whole(timeline, render_timeline(timeline_of(priced[0][1]), timeline))
    if format_ == "json":
        click.echo(json_text(estimate_json(priced)), nl=False)
    elif priced:
        click.echo(estimate_text(priced), nl=False)
    for name, reasons in refused:
        click.echo(terminal(f"plan '{name}' is not priced: {'; '.join(reasons)}"), err=True)
    return 1 if refused else 0
