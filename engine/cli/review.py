"""`planproof review FILE`: the whole pipeline, as a record or as JSON."""

from __future__ import annotations

from typing import Any

import click

from .main import fail_on_option, fails, options_of, shared_options, stated_fail_on


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--format", "format_", type=click.Choice(["markdown", "json", "html"]), default="markdown", show_default=True,
    help="The decision record, everything as JSON, or one HTML file with pictures.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False),
    help="Write the record here, whole or not at all; what people wrote between its markers stays.",
)
@click.option("--templates", type=click.Path(exists=True, file_okay=False), help="A folder whose templates replace ours.")
@fail_on_option
@shared_options()
def review(
    file: str, format_: str, output: str | None, templates: str | None, fail_on: str, **values: Any
) -> int:
    """Review the proposal FILE: may it run, what instead, how sure.

    Prints a decision record (Markdown) or its JSON. The verdict and the time it took go to standard error, so that the record is
    the same for the same inputs. Exit status 1 where the verdict is REFUSED or a finding is at or above --fail-on.
    """
    from pathlib import Path

    from ..errors import UsageError
    from ..pipeline import review_loaded, session
    from ..proposal import load_proposal

    if output == "-":
        output = None
    if output is not None and Path(output).resolve() == Path(file).resolve():
        raise UsageError("-o names the proposal itself, which the record would replace", remedy="Name another file.")
    if output is not None:
        from ..report.output import demand_writable

        demand_writable(output)
    with session(options_of(values), file) as opened:
        opened.gate.start()
        done = review_loaded(load_proposal(file), opened)
        settings = opened.settings
    templates = templates or settings.templates
    if format_ == "json":
        from ..report.review_json import json_text, review_json

        text = json_text(review_json(done))
    elif format_ == "html":
        from ..report.html import render_html

        text = render_html(done, Path(templates) if templates else None)
    else:
        from ..report.record import render_record

        block = None
        if output is not None and Path(output).is_file():
            from ..report.human_block import kept_block

            block = kept_block(Path(output))
        text = render_record(done, Path(templates) if templates else None, block=block)
    if output is None:
        click.echo(text, nl=False)
    else:
        from ..report.output import write_whole

        write_whole(Path(output), text)
    from ..report.escape import terminal

    seconds = done.produced_with.get("seconds")
    evaluators = done.produced_with.get("evaluators")
    names = ", ".join(evaluators) if isinstance(evaluators, dict) else ""
    click.echo(terminal(f"{done.sentence}\n[{done.rules} rules by {names}; {seconds} s]"), err=True)
    refused = done.verdict.value == "REFUSED"
    limit = stated_fail_on(fail_on) or settings.fail_on or fail_on
    return 1 if refused or fails(done.findings, limit) else 0
