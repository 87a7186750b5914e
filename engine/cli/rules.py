"""`planproof rules list | new | test` and `planproof explain RULE`."""

from __future__ import annotations

from typing import Any

import click

from .completion import phases, rule_ids
from .main import options_of, shared_options


@click.group()
def rules() -> None:
    """The rule catalogue: list the rules, start a new one, or run their own examples."""


@rules.command("list")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="One line a rule, or JSON.",
)
@click.option("--phase", metavar="PHASE", shell_complete=phases, help="Only rules of this phase: intake, evidence, shape, ...")
@shared_options(search=False)
def list_rules(format_: str, phase: str | None, **values: Any) -> None:
    """List every rule with its phase, severity and title."""
    from ..errors import UsageError
    from ..inference import PHASES
    from ..pipeline import session

    if phase is not None and phase not in [one.value for one in PHASES]:
        raise UsageError(f"there is no phase '{phase}'", remedy=f"Phases: {', '.join(one.value for one in PHASES)}.")
    with session(options_of(values)) as opened:
        found = [rule for rule in opened.catalogue.rules if phase is None or rule.phase.value == phase]
    if format_ == "json":
        from ..report.review_json import json_text

        rows = [
            {
                "id": rule.id,
                "title": rule.title,
                "severity": rule.severity.value,
                "phase": rule.phase.value,
                "status": rule.status.value,
                "file": rule.file,
                "counter": rule.counter,
            }
            for rule in found
        ]
        click.echo(json_text(rows), nl=False)
        return
    for rule in found:
        click.echo(f"{rule.id}  {rule.phase.value:<9} {rule.severity.value:<8} {rule.title}")
    click.echo(f"{len(found)} rules")


@rules.command("new")
@click.argument("rule_id", metavar="ID")
@click.argument("phase", shell_complete=phases)
@click.argument("title")
@click.option("--folder", metavar="DIR", default="rules", show_default=True, help="The folder of rules to write it into.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def new_rule(rule_id: str, phase: str, title: str, folder: str, force: bool) -> None:
    """Start a rule: a file in DIR/PHASE that loads, with an example that fails until it is filled in.

    ID is three capital letters of your own and three digits, PHASE one of intake, evidence, shape, mapping, memory, schedule,
    network, claims and outcome, TITLE a line that says what is wrong.
    """
    from pathlib import Path

    from ..inference.scaffold import scaffold
    from ..pipeline import Options, session
    from ..report.output import write_whole

    root = Path(folder)
    own = (folder,) if root.is_dir() and any(root.rglob("*.y*ml")) else ()
    with session(Options(rules=own)) as opened:
        name, text = scaffold(rule_id, phase, title, opened.catalogue.rules)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(str(path), text, overwrite=force)
    click.echo(f"written: {path.as_posix()}")
    click.echo(f"next: fill in its marked lines, then 'planproof rules test {folder}'")


@rules.command("test")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--rule", "wanted", metavar="RULE", multiple=True, shell_complete=rule_ids, help="Only this rule.")
def test_rules(folder: str | None, wanted: tuple[str, ...]) -> int:
    """Run every rule on its own examples: it must fire where it says so and stay silent where it says so.

    With FOLDER, the rules of that folder, beside the shipped ones. Exit status 1 where an example fails, or no rule was tested.
    """
    from ..pipeline import Options, run_examples, session

    failed = count = 0
    with session(Options(rules=(folder,) if folder else ())) as opened:
        for rule, problems in run_examples(opened, folder, wanted):
            count += 1
            for problem in problems:
                failed += 1
                click.echo(f"{rule.file}: {problem}")
    click.echo(f"{count} {'rule' if count == 1 else 'rules'}, {failed} {'example' if failed == 1 else 'examples'} failed")
    return 1 if failed or not count else 0


@click.command()
@click.argument("rule_id", metavar="RULE", shell_complete=rule_ids)
@click.option("--file", "file", type=click.Path(), help="A proposal: show the facts that the rule bound in it.")
@shared_options(search=False)
def explain(rule_id: str, file: str | None, **values: Any) -> int:
    """Say what RULE demands, why, what to do, and how it is tested; with --file, which facts it bound and where they stand.

    RULE is an id as findings have it, such as MEM001; 'planproof rules list' lists all.
    """
    from ..errors import UsageError
    from ..pipeline import explained, session
    from ..report.explain import explain_match, explain_rule

    with session(options_of(values), file) as opened:
        by_id = {rule.id: rule for rule in opened.catalogue.rules}
        rule = by_id.get(rule_id.upper())
        if rule is None:
            import difflib

            near = difflib.get_close_matches(rule_id.upper(), by_id, n=3, cutoff=0.4)
            raise UsageError(
                f"there is no rule '{rule_id}'",
                remedy=f"Near: {', '.join(near)}." if near else "'planproof rules list' lists them.",
            )
        click.echo(explain_rule(rule), nl=False)
        if file is None:
            return 0
        from ..proposal import load_proposal

        loaded = load_proposal(file)
        found, facts, case = explained(loaded, opened, rule)
        click.echo(explain_match(rule, found, loaded, facts, case), nl=False)
    return 0
