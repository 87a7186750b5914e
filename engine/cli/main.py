"""The root command, the one way out for errors, and the options that every command shares.

Exit status: 0 nothing at or above --fail-on; 1 findings, or REFUSED; 2 could not judge; 130 interrupted. Commands are imported
when they are called, so that `--help` and `lint` stay quick.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import Place, PlanproofError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Command -> (module, one line of help). The module has a click command of the command's name.
COMMANDS = {
    "review": ("review", "Review a proposal: verdict, findings, recommended plan, ledgers, as a decision record."),
    "record": ("record", "Decision records: verify, compare with a measured run, list."),
    "lint": ("lint", "Check proposals without a search: findings with file, line and column."),
    "diff": ("diff", "What a change of a proposal does to verdict, memory, step time and findings."),
    "estimate": ("estimate", "Memory and time of one plan of a proposal, or of two side by side."),
    "cluster": ("cluster", "What was understood of a proposal's cluster, as text, JSON or a picture."),
    "facts": ("facts", "The facts that rules see for a proposal."),
    "explain": ("rules", "What a rule demands, why, and, with --file, the facts that it bound."),
    "calibrate": ("calibrate", "Fit a device's parameters to measured runs and write them as a data sheet."),
    "rules": ("rules", "List the rules, or test them on their own examples."),
    "config": ("config", "The configuration that counts for a proposal, and where each value came from."),
    "schema": ("schema", "The JSON schema of a proposal, for editors."),
    "import": ("import_", "Make a proposal from launch files, model configurations and measured files."),
    "init": ("init", "Write a proposal to start from: a commented skeleton, or one filled from a model and a node type."),
}


class ClosedPipe(Exception):
    """Whoever read standard output has gone. Not an OSError: click would end with 1, which means findings."""


class LazyGroup(click.Group):
    """Knows its commands by name and imports one when it is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ever; that --verbose stands after --version makes no difference."""
        ctx.meta[_VERBOSE] = "--verbose" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe is told apart from every other failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ClosedPipe from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order in which they are useful."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return it."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, "import_" if cmd_name == "import" else cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options that begin so, without importing any command."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"planproof {version('planproof')}")
        if ctx.meta.get(_VERBOSE):
            from .versions import versions

            click.echo(versions(), nl=False)
        ctx.exit()


#: Where a context keeps that --verbose was given.
_VERBOSE = f"{__name__}.verbose"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Print the version.")
@click.option(
    "--verbose", is_flag=True, expose_value=False,
    help="With --version: the interpreter, the libraries and the rules too, for a bug report.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error, for a bug report.")
@click.pass_context
def root(ctx: click.Context, debug: bool) -> None:
    """Review distributed-training proposals before anything is launched. Nothing is ever launched by this tool."""
    ctx.obj = {"debug": debug}


def main() -> None:
    """The entry point: runs the command and turns every failure into one message and the right exit status."""
    arguments = sys.argv[1:]
    # Nobody's plugins belong in a judgement, and looking for them reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What a start imports stays, and looking through it for cycles every 700 objects is a tenth of the time of a short command.
    gc.set_threshold(50_000, 20, 20)
    _open_streams()
    try:
        status = root.main(arguments, prog_name="planproof", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except PlanproofError as error:
        if "--debug" in arguments:
            raise
        _fail(error.exit_status, error.code, error, arguments)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        if _wants_json(arguments):
            _fail(2, "usage", PlanproofError(error.format_message(), code="usage"), arguments)
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted; nothing was written.", err=True)
        sys.exit(130)
    except (ClosedPipe, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141 if os.name == "posix" else 1)
    except OSError as error:
        if "--debug" in arguments:
            raise
        what = error.strerror or str(error)
        _fail(2, "output", PlanproofError(f"cannot read or write: {what}", place=Place(error.filename)), arguments)
    except Exception as error:
        if "--debug" in arguments:
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        fault = PlanproofError(
            f"an internal fault: {what}",
            code="internal",
            remedy="This is a bug of planproof and no verdict. Run again with --debug and report what it prints.",
        )
        _fail(2, "internal", fault, arguments)


def _open_streams() -> None:
    """Stand-ins for standard streams that the caller closed, so that no file of ours gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Kept open on purpose: it stands in for the stream as long as the process lives.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # stays open: it takes the stream's place


def _fail(status: int, code: str, error: PlanproofError, arguments: list[str]) -> None:
    """Print an error: one JSON object on standard output where JSON was asked for, else one message on standard error."""
    from ..report.escape import terminal

    place = error.place
    if _wants_json(arguments):
        body: dict[str, Any] = {
            "code": code,
            "message": error.message,
            "path": place.file,
            "line": place.line,
            "column": place.column,
        }
        if error.remedy:
            body["remedy"] = error.remedy
        click.echo(json.dumps({"error": body}, ensure_ascii=False, indent=2))
    else:
        click.echo(terminal(f"error: {error}"), err=True)
    sys.exit(status)


def _wants_json(arguments: list[str]) -> bool:
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(one == "--format=json" or (one == "--format" and two == "json") for one, two in pairs)


class Seconds(click.FloatRange):
    """A finite number in a range: 'nan' compares with nothing, and would pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def shared_options(*, search: bool = True) -> Decorator:
    """--as-of, --hardware, --rules, --config, --isolated and, for commands that search, --work-limit."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        if search:
            command = click.option(
                "--time-limit",
                type=Seconds(0, min_open=True),
                metavar="S",
                help="Stop the search after S seconds with the best so far; not reproducible, and the record says so.",
            )(command)
            command = click.option(
                "--work-limit", type=click.IntRange(1), help="Price at most this many candidates; the record says so."
            )(command)
        command = click.option("--isolated", is_flag=True, help="Without any configuration.")(command)
        command = click.option(
            "--config",
            "config_file",
            type=click.Path(dir_okay=False),
            help="A configuration in place of the nearest planproof.toml, or pyproject.toml with [tool.planproof].",
        )(command)
        command = click.option(
            "--rules",
            "rule_folders",
            multiple=True,
            type=click.Path(exists=True, file_okay=False),
            help="A folder of further rules.",
        )(command)
        command = click.option(
            "--hardware", multiple=True, type=click.Path(exists=True, file_okay=False), help="A folder of your own data sheets."
        )(command)
        return click.option(
            "--as-of", type=click.DateTime(["%Y-%m-%d"]), help="The date of the review; evidence is dated against it."
        )(command)

    return decorate


def options_of(values: dict[str, Any]) -> Any:
    """The pipeline's options from the shared command-line options, taken out of `values`."""
    from ..config import ISOLATED
    from ..pipeline import Options

    as_of = values.pop("as_of", None)
    config, isolated = values.pop("config_file", None), values.pop("isolated", False)
    if config is not None and isolated:
        raise click.UsageError("--config and --isolated exclude each other.")
    return Options(
        as_of=as_of.date() if as_of is not None else None,
        hardware=tuple(values.pop("hardware", ())),
        rules=tuple(values.pop("rule_folders", ())),
        work_limit=values.pop("work_limit", None),
        time_limit=values.pop("time_limit", None),
        settings=ISOLATED if isolated else None,
        config=config,
    )


def fails(findings: Any, fail_on: str) -> bool:
    """Whether any finding is at or above `fail_on`: the exit status of a report, and nothing else."""
    order = {"error": 0, "warning": 1, "note": 2, "never": -1}
    limit = order[fail_on]
    return any(order[finding.severity.value] <= limit for finding in findings if finding.suppressed is None)


fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 where a finding is this severe.",
)


def stated_fail_on(fail_on: str) -> str | None:
    """`fail_on` where the command line says it; None where it is the option's default, and a configuration may say otherwise."""
    source = click.get_current_context().get_parameter_source("fail_on")
    return None if source is click.core.ParameterSource.DEFAULT else fail_on
