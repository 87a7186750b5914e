"""`planproof config show [PATH]`: the configuration that counts for a proposal, each value with where it came from."""

from __future__ import annotations

from typing import Any

import click

from .main import options_of, shared_options


@click.group()
def config() -> None:
    """The configuration of a repository: planproof.toml, or [tool.planproof] in pyproject.toml."""


@config.command("show")
@click.argument("path", default=".", type=click.Path())
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="One line a value, or JSON.",
)
@click.option("--diff", "base", metavar="BASE", help="Read it as revision BASE has it, as 'lint --diff BASE' does.")
@shared_options(search=False)
def show(path: str, format_: str, base: str | None, **values: Any) -> None:
    """Print every value that counts for PATH, a proposal or a folder, and the file and line that it came from.

    It is checked against the rules on the way: a rule or parameter that does not exist is an error here as in a review.
    """
    import os
    from dataclasses import replace

    from ..config.show import settings_json, settings_text
    from ..pipeline import session
    from ..report.escape import terminal
    from ..report.review_json import json_text

    at = os.path.join(path, "proposal.yaml") if os.path.isdir(path) else path
    with session(replace(options_of(values), base=base), at) as opened:
        settings = opened.settings
    if format_ == "json":
        click.echo(json_text(settings_json(settings, path)), nl=False)
    else:
        click.echo(terminal(settings_text(settings, path)), nl=False)
