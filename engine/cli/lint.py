"""`planproof lint PATH...`: findings without a search, file by file."""

from __future__ import annotations

import sys
from typing import Any

import click

from .main import fail_on_option, fails, options_of, shared_options


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--format", "format_", type=click.Choice(["text", "concise", "json"]), default="text", show_default=True)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@fail_on_option
@shared_options(search=False)
def lint(paths: tuple[str, ...], format_: str, color: str, fail_on: str, **values: Any) -> int:
    """Check the proposals at PATHS: intake, evidence, shapes, mapping, memory, schedule and claims; no search, no prices in time.

    A file that cannot be judged is reported and the others are still checked; the exit status is then 2.
    """
    from ..errors import PlanproofError
    from ..pipeline import lint_each
    from ..report.escape import terminal

    reports, broken = [], []
    for path, result in lint_each(paths, options_of(values)):
        if isinstance(result, PlanproofError):
            broken.append((path, result))
            if format_ != "json":
                click.echo(terminal(f"error: {result}"), err=True)
        else:
            reports.append(result)
    if format_ == "json":
        from ..report.lint_json import lint_json
        from ..report.review_json import json_text

        click.echo(json_text(lint_json(reports, broken)), nl=False)
    else:
        from ..report.concise import concise
        from ..report.text import text

        for report in reports:
            click.echo(text(report, color=_colour(color)) if format_ == "text" else concise(report), nl=False)
    if broken:
        return 2
    return 1 if any(fails(report.findings, fail_on) for report in reports) else 0


def _colour(choice: str) -> bool:
    import os

    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
