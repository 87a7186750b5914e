"""`planproof cluster FILE`: what was understood of the cluster, as text, JSON or a picture."""

from __future__ import annotations

from typing import Any

import click

from .main import options_of, shared_options


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--format", "format_", type=click.Choice(["text", "json", "mermaid", "svg"]), default="text", show_default=True,
    help="mermaid: a fenced block for Markdown; svg: a picture for HTML that needs nothing else.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(), help="Write to this file instead of standard output.")
@shared_options(search=False)
def cluster(file: str, format_: str, output: str | None, **values: Any) -> int:
    """Print what the proposal FILE says of its cluster: islands, tiers, rates with grades, cards, bisection, placement.

    Exit status 1 where something is missing that keeps the cluster from being priced: the text says what.
    """
    from ..hardware import open_library
    from ..proposal import load_proposal, resolve
    from ..report.cluster_view import view_of

    view = view_of(resolve(load_proposal(file), open_library(options_of(values).hardware)))
    if format_ == "json":
        from ..report.cluster_text import cluster_json
        from ..report.review_json import json_text

        text = json_text(cluster_json(view))
    elif format_ == "text":
        from ..report.cluster_text import cluster_text

        text = cluster_text(view)
    elif format_ == "mermaid":
        from ..report.cluster_picture import mermaid

        text = mermaid(view)
    else:
        from ..report.cluster_svg import svg

        text = svg(view)
    if output is not None:
        from ..report.output import write_whole

        write_whole(output, text)
    else:
        click.echo(text, nl=False)
    return 0 if view.complete else 1
