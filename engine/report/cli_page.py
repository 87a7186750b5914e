"""docs/cli.md: every command with its help, from the commands themselves.

The page is set here and not taken from `--help`, whose layout is the library's and changes with its releases. Knows how a command
describes itself, and no command.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from .escape import code

_HEAD = """\
# Commands

This page is generated from the commands (`python -m planproof.report.docs docs`); `planproof COMMAND --help` prints the same.

Results go to standard output, everything else to standard error. Exit status, of every command:

| status | means |
|---|---|
| 0 | nothing at or above `--fail-on` (of `lint`, `review`, `diff`), or simply done |
| 1 | findings at or above it, a verdict of REFUSED, rules or prices that could not be had |
| 2 | could not judge: the command line, a configuration, bytes that are no proposal, an internal fault |
| 130 | interrupted; what was to be written was not |

With `--format json` on standard output an error of status 2 is one JSON object there:
`{"error": {"code", "message", "path", "line", "column", "remedy"}}`.

Environment: `NO_COLOR` and `FORCE_COLOR` (colours of `lint`), `GITHUB_STEP_SUMMARY` (where `lint --format github` adds a
summary).
"""
_COMPLETION = """\

## Completion in a shell

Commands, options, formats and the ids of rules are completed. Once, in the start-up file of the shell:

```sh
eval "$(_PLANPROOF_COMPLETE=bash_source planproof)"    # bash 4.4 or later: ~/.bashrc
eval "$(_PLANPROOF_COMPLETE=zsh_source planproof)"     # zsh: ~/.zshrc
_PLANPROOF_COMPLETE=fish_source planproof | source     # fish: ~/.config/fish/config.fish
```
"""


def cli_page(root: click.Group, ctx: click.Context) -> str:
    """The page for `root` and every command below it; `ctx` is a context of `root`."""
    lines = [_HEAD, *_index(root, ctx), *_command(root, "planproof", 2), *_below(root, ctx, "planproof")]
    return "\n".join(lines) + "\n" + _COMPLETION


def commands(group: click.Group, ctx: click.Context, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, by its full name, groups too."""
    for own in group.list_commands(ctx):
        command = group.get_command(ctx, own)
        if command is not None:
            full = f"{name} {own}".strip()
            yield full, command
            if isinstance(command, click.Group):
                yield from commands(command, ctx, full)


def _index(root: click.Group, ctx: click.Context) -> Iterator[str]:
    yield "| command | does |"
    yield "|---|---|"
    for name, command in commands(root, ctx):
        text = _paragraphs(command)[0].rstrip(".:")
        yield f"| [{code('planproof ' + name)}](#{('planproof-' + name).replace(' ', '-')}) | {text} |"
    yield ""


def _below(root: click.Group, ctx: click.Context, name: str) -> Iterator[str]:
    for full, command in commands(root, ctx):
        yield ""
        yield from _command(command, f"{name} {full}", 2)


def _command(command: click.Command, name: str, level: int) -> Iterator[str]:
    usage = " ".join([name, "[OPTIONS]", *(_argument(one) for one in command.params if one.param_type_name == "argument")])
    if hasattr(command, "list_commands"):
        usage += " COMMAND ..."
    yield f"{'#' * level} {name}\n"
    yield f"```\n{usage}\n```\n"
    for paragraph in _paragraphs(command):
        yield paragraph + "\n"
    options = [one for one in command.params if one.param_type_name == "option" and not getattr(one, "hidden", False)]
    if options:
        yield "| option | says |"
        yield "|---|---|"
    for option in options:
        yield f"| {_names(option)} | {_says(option)} |"


def _paragraphs(command: click.Command) -> list[str]:
    """The help text; a paragraph after a backspace keeps its lines, as it does on a terminal."""
    found = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if block.startswith("\b"):
            head, *lines = block.removeprefix("\b").strip("\n").split("\n")
            found.append(f"{head}\n\n```sh\n" + "\n".join(line.strip() for line in lines) + "\n```")
        else:
            found.append(" ".join(block.split()))
    return found


def _argument(parameter: click.Parameter) -> str:
    name = parameter.metavar or (parameter.name or "").upper()
    if parameter.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if parameter.required else f"[{name}]"


def _names(option: Any) -> str:
    value = "" if option.is_flag or option.count else " " + _value(option)
    return ", ".join(code(name + (value if k == len(option.opts) - 1 else "")) for k, name in enumerate(option.opts))


def _value(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    choices = getattr(option.type, "choices", None)
    if choices is not None:
        # A bar would end the cell of the table.
        return "{" + ",".join(map(str, choices)) + "}"
    named: Mapping[str, str] = {"integer range": "N", "integer": "N", "float range": "X", "datetime": "DATE", "text": "TEXT"}
    return named.get(option.type.name, str(option.type.name).upper())


def _says(option: Any) -> str:
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    default = option.default
    if option.show_default and isinstance(default, tuple | list):
        default = ", ".join(map(str, default))
    if option.multiple:
        text += " May be given several times."
    if option.show_default and default:
        text += f" Default: {default}."
    return text
