"""`planproof diff OLD NEW`: what a change of a proposal does."""

from __future__ import annotations

from typing import Any

import click

from .main import fails, options_of, shared_options


@click.command()
@click.argument("old", metavar="OLD", type=click.Path())
@click.argument("new", metavar="NEW", type=click.Path())
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people, or JSON."
)
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note", "never"]), default="error", show_default=True,
    help="End with 1 where the change brings a finding that is this severe.",
)
@shared_options()
def diff(old: str, new: str, format_: str, fail_on: str, **values: Any) -> int:
    """Say what the change from the proposal OLD to NEW does to verdict, memory, step time and findings.

    Both are reviewed. Plans are matched by role and name, findings by what they are about, so moved lines and reordered plans
    are no change. The ratio of two step times is formed under common draws where model, workload and cluster stay the same.

    \b
    Example:
      git show origin/main:plans/a.yaml > before.yaml
      planproof diff before.yaml plans/a.yaml

    Exit status: 0 where the change brings nothing at or above --fail-on; 1 where it does, or where it is what makes the verdict
    REFUSED; 2 where one of the two cannot be judged.
    """
    from ..pipeline import review
    from ..report.difference import compare, difference_json, difference_text
    from ..report.review_json import json_text

    options = options_of(values)
    found = compare(review(old, options), review(new, options))
    if format_ == "json":
        click.echo(json_text(difference_json(found)), nl=False)
    else:
        click.echo(difference_text(found), nl=False)
    return 1 if (found.refused and fail_on != "never") or fails(found.worse, fail_on) else 0
