"""`planproof init`: a proposal to start from, and the list of what is still to state. The text is `proposal.skeleton`'s."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import UsageError
from ..hardware import open_library
from ..proposal.skeleton import Given, batch_text, draft, read_model
from ..quantity import UnitError
from ..report.output import write_whole

NAME = "proposal.yaml"


@click.command("init", short_help="Write a proposal to start from.")
@click.option("--model", metavar="FILE", help="The model's config.json: named where it lies in the repository, else copied.")
@click.option("--node", metavar="TYPE", help="The node data sheet: dgx_h100, p4d.24xlarge, ...")
@click.option("--nodes", metavar="N", type=click.IntRange(1, 10**9), help="How many nodes.")
@click.option("--global-batch", metavar="B", help="Of a step: a bare number is sequences, as in 2048; or '4194304 tokens'.")
@click.option("--sequence-length", metavar="S", type=click.IntRange(1, 10**8), help="Tokens a sequence.")
@click.option("--hardware", metavar="DIR", multiple=True, help="A folder of your own data sheets; may be repeated.")
@click.option("-o", "--output", metavar="FILE", help="Where to write it; default: standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def init(
    model: str | None,
    node: str | None,
    nodes: int | None,
    global_batch: str | None,
    sequence_length: int | None,
    hardware: tuple[str, ...],
    output: str | None,
    force: bool,
) -> None:
    """Write a proposal to start from.

    Without options it is a commented form. What the options say is filled in, each value with where it comes from, and
    with a reference plan that divides. What is still to state is listed on standard error.
    """
    path = Path(output or NAME)
    library = open_library(hardware)
    given = Given(
        model=read_model(model, path) if model is not None else None,
        node=library.node(node) if node is not None else None,
        nodes=nodes,
        global_batch=_batch(global_batch) if global_batch is not None else None,
        sequence_length=sequence_length,
    )
    made = draft(given, path, library)
    if output is None:
        click.echo(made.text, nl=False)
    else:
        write_whole(output, made.text, overwrite=force)
        click.echo(f"written: {output}", err=True)
    if made.left_out:
        click.echo(f"the model's file says what shapes cannot: {', '.join(made.left_out)}", err=True)
    click.echo(f"still to state ({len(made.case.missing)}):", err=True)
    for gap in made.case.missing:
        click.echo(f"  {gap.what}; from {gap.how}", err=True)


def _batch(raw: str) -> str:
    try:
        return batch_text(raw)
    except UnitError as error:
        raise UsageError(
            f"--global-batch: {error}", code="usage.batch", remedy="Write 2048 (sequences), or '4194304 tokens'."
        ) from None
