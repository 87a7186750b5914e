"""`planproof import KIND FILE...`: a proposal from other people's files. The text is `proposal.imported`'s."""

from __future__ import annotations

from pathlib import Path

import click

from ..document.source import read_file
from ..errors import UsageError
from ..hardware import open_library
from ..importers.launch import KINDS, SourceFile
from ..proposal.imported import Imported, import_files
from ..proposal.imported_graph import GRAPH_KINDS, import_graph
from ..report.escape import terminal
from ..report.output import write_whole

NAME = "proposal.yaml"


@click.command("import", short_help="Make a proposal from launch files, model configurations and measured files.")
@click.argument("kind", metavar="KIND", type=click.Choice([*KINDS, *GRAPH_KINDS, "auto"]))
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Where to write it; default: standard output.")
@click.option("--set", "given", metavar="NAME=VALUE", multiple=True, help="A script's variable, or a symbolic dim; repeatable.")
@click.option("--command", metavar="N", type=click.IntRange(1, 1000), help="Which training command of a script, from 1.")
@click.option("--hardware", metavar="DIR", multiple=True, help="A folder of your own data sheets; may be repeated.")
@click.option("--force", is_flag=True, help="Replace the output FILE if it exists.")
def import_(
    kind: str,
    files: tuple[str, ...],
    output: str | None,
    given: tuple[str, ...],
    command: int | None,
    hardware: tuple[str, ...],
    force: bool,
) -> None:
    """Make a proposal from files as they lie in a repository.

    KIND is what the first FILE is: hf-config, megatron, deepspeed, torchtitan, nemo, nanotron, neox, llm-foundry, accelerate,
    primus, nvidia-topo, rocm-smi, nccl-tests, torch-allreduce, or auto, which tells it by content. Further files complete it,
    each told by its content: a model's config.json, DeepSpeed's configuration, a cluster file (a proposal with a 'cluster'
    section), a measured topology or collective.

    An exported program (onnx, torch-export) becomes the operators of 'model.graph'; it stands alone, and neither weights nor code
    of it are read. Its first axis is the batch, the second of token ids the sequence; --set gives a symbolic dim a size.

    A script is read, never run. What no file says is not filled in, but listed; a framework's own default is marked 'assumed',
    with its version and source.

    \b
    Examples:
      planproof import megatron train.sh config.json cluster.yaml -o proposal.yaml
      planproof import auto ds_config.json config.json
      planproof import megatron train.sh --set TP=8 --set PP=4
      planproof import onnx model.onnx -o proposal.yaml
    """
    variables = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--set: '{one}' is not NAME=VALUE", code="usage.set", remedy="Write --set TP=8.")
        variables[name] = value
    made = _made(kind, files, variables, command, Path(output or NAME), hardware)
    if output is None:
        click.echo(made.text, nl=False)
    else:
        write_whole(output, made.text, overwrite=force)
        click.echo(f"written: {terminal(output)}", err=True)
    for clash in made.clashes:
        click.echo(terminal(f"the files differ: {clash}"), err=True)
    click.echo(f"still to state ({len(made.case.missing)}):", err=True)
    for gap in made.case.missing:
        click.echo(terminal(f"  {gap.what}; from {gap.how}"), err=True)


def _made(
    kind: str, files: tuple[str, ...], variables: dict[str, str], command: int | None, target: Path, hardware: tuple[str, ...]
) -> Imported:
    """The proposal of an exported program, or of files that are read together."""
    if kind not in GRAPH_KINDS:
        sources = [SourceFile(name, read_file(name, name), variables, command) for name in files]
        return import_files(kind, sources, target, open_library(hardware))
    if len(files) > 1:
        raise UsageError(
            f"'{kind}' reads one file, and {len(files)} are given", code="usage.files",
            remedy="Import the program, then state the rest in the proposal, or import that by itself.",
        )  # fmt: skip
    return import_graph(kind, files[0], variables, target, open_library(hardware))
