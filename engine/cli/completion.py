"""What a shell completes: ids of rules, kinds of facts, names of phases. A completion never fails: it offers less.

Each function has the form that click asks for: context, parameter and what was typed so far, to items with a line of help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def rule_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped rules and those of --rules that begin so, in capitals or not."""
    from click.shell_completion import CompletionItem

    from ..errors import PlanproofError
    from ..facts import KINDS
    from ..inference import load_catalogue

    try:
        rules = load_catalogue(KINDS, ctx.params.get("rule_folders") or ()).rules
    except PlanproofError:
        return []
    return [CompletionItem(rule.id, help=rule.title) for rule in rules if rule.id.startswith(incomplete.upper())]


def fact_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The kinds of fact that begin so."""
    from click.shell_completion import CompletionItem

    from ..facts import KINDS

    return [CompletionItem(kind.name, help=kind.doc) for kind in KINDS.values() if kind.name.startswith(incomplete)]


def phases(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The phases that begin so."""
    from click.shell_completion import CompletionItem

    from ..inference import PHASES

    return [CompletionItem(phase.value) for phase in PHASES if phase.value.startswith(incomplete)]
