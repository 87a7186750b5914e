"""`planproof cluster FILE`: what was understood of a cluster, as text, JSON or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .main import options_of, shared_options

if TYPE_CHECKING:
    from ..hardware import Library
    from ..report.cluster_view import ClusterView


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--format", "format_", type=click.Choice(["text", "json", "mermaid", "svg"]), default="text", show_default=True,
    help="mermaid: a fenced block for Markdown; svg: a picture for HTML that needs nothing else.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(), help="Write to this file instead of standard output.")
@shared_options(search=False)
def cluster(file: str, format_: str, output: str | None, **values: Any) -> int:
    """Print what FILE says of a cluster: islands, tiers, rates with grades, cards, bisection, placement of plans.

    FILE is a proposal; the output of `nvidia-smi topo -m`, `rocm-smi --showtopo`, nccl-tests or a torch all-reduce benchmark;
    or, where no such file exists, the name of a node with a data sheet (dgx_h100) or a description in words
    ("4 nodes of dgx_h100, 8 x 400 Gbit/s NICs, rail-optimised").

    Exit status 1 where something is missing that keeps the cluster from being priced, or a measured file was read in part:
    the text says what.
    """
    from ..hardware import open_library

    view = _view(file, open_library(options_of(values).hardware))
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


def _view(file: str, library: Library) -> ClusterView:
    """The view of a proposal, of a measured file, or of a cluster named or described on the command line."""
    from ..errors import InputError, Place
    from ..files.sniff import ENDINGS, begins_as_a_proposal
    from ..proposal import load_proposal, resolve
    from ..report.cluster_view import view_of

    if not _exists(file):
        said = _said(file, library)
        if said is None:
            raise InputError(
                "There is no such file, and no node of that name has a data sheet.",
                place=Place(file),
                code="input.missing",
                remedy=f"Name a file, describe a cluster in words, or name one of: {', '.join(library.names('node'))}.",
            )
        from ..proposal.load import parse_proposal

        try:
            return view_of(resolve(parse_proposal(said, "the command line", Path.cwd() / "described"), library))
        except InputError as error:
            # The words stand in no file: a line and a column would be those of a proposal that nobody sees.
            error.place = Place("the command line")
            raise
    if not file.lower().endswith(ENDINGS):
        from ..document.source import read_file

        raw = read_file(file, file)
        if not begins_as_a_proposal(raw):
            from ..report.cluster_bare import bare_view

            return bare_view(raw.decode("utf-8", "replace"), file)
    return view_of(resolve(load_proposal(file), library))


def _exists(file: str) -> bool:
    try:
        return Path(file).exists()
    except (OSError, ValueError):
        return False


def _said(text: str, library: Library) -> bytes | None:
    """A proposal of the cluster that `text` names or describes; None where it does neither and can only be a missing file."""
    import json

    from ..errors import PlanproofError

    words: dict[str, Any]
    if any(char in text for char in ", \n"):
        words = {"description": text}
    else:
        try:
            # One node alone has no fabric to share with anybody.
            words = {"nodes": {"type": library.node(text).name, "count": 1}, "contention": "none"}
        except PlanproofError:
            return None
    return json.dumps({"planproof": 1, "cluster": words}).encode()
