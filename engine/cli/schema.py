"""`planproof schema`: the JSON schema of a proposal."""

from __future__ import annotations

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of a proposal.

    Editors use it through a first line such as  # yaml-language-server: $schema=planproof.schema.json
    """
    from ..proposal import schema as body

    click.echo(json.dumps(body(), indent=2, ensure_ascii=False))
