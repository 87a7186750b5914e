"""The decision record: a review through Jinja2 templates into Markdown, byte for byte the same for the same inputs.

Templates lay out and compute nothing. Every text that a template prints is escaped for Markdown by the environment, so
that no template can forget it; what is Markdown already (tables, code) comes from filters. No clock, no absolute path,
no locale and no version of anything enters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from ..decision.review import Review
from ..errors import Place, PlanproofError, UsageError
from ..inference.rule import Source
from .escape import code, markdown
from .human_block import with_human_block
from .record_boundaries import boundaries
from .record_diagrams import diagrams
from .record_head import Limits, head, proposed
from .record_operators import operators
from .record_outlook import outlook
from .record_plans import plans
from .record_trail import trail
from .tables import Table, table_markdown

TEMPLATE = "record.md.j2"
MAX_LINES = 400
#: What a template may print: more is no report.
MOST_CHARACTERS = 3_000_000
_SHORT = Limits(
    plans=8, findings=24, errors=60, of_a_rule=1, pictures=False, stages=24, candidates=10, rows=20, classes=6, operators=0
)  # fmt: skip
_SHORTER = replace(_SHORT, notes=False, stages=12, candidates=6, rows=11, classes=3, findings=18, errors=36)
#: Tried in turn until the record is short enough; what is left out is always counted.
LIMITS = (
    Limits(),
    Limits(classes=6),
    Limits(classes=4, rows=16, operators=5),
    Limits(classes=3, rows=16, operators=4),
    Limits(classes=2, rows=16, operators=3, pictures=False),
    Limits(classes=3, rows=16, operators=4, pictures=False, ledgers=1),
    Limits(classes=3, rows=16, operators=0, pictures=False),
    Limits(pictures=False, operators=0),
    _SHORT,
    replace(_SHORT, notes=False, stages=16, candidates=8, rows=13, classes=4, errors=48),
    _SHORTER,
    replace(_SHORTER, stages=10, rows=9, findings=14, errors=28),
    replace(_SHORTER, reasons=6, plans=6, stages=8, candidates=5, rows=6, findings=8, errors=18, sources=False),
)


def render_record(
    review: Review,
    templates: Path | None = None,
    *,
    sources: Mapping[str, Sequence[Source]] | None = None,
    block: str | None = None,
) -> str:
    """The record of `review`. Templates in the folder `templates` replace the shipped ones of the same name.

    `block`: what people wrote into the record that this one replaces.

    `sources`: why each rule exists, by its id, where that is to be printed. Raises UsageError, naming template and
    line, for a template that does not render.
    """
    environment = _environment(templates)
    text = ""
    for limits in LIMITS:
        text = _render(environment, record_context(review, review.sources if sources is None else sources, limits), templates)
        if text.count("\n") < MAX_LINES:
            break
    return text if block is None else with_human_block(text, block)


def _render(environment: SandboxedEnvironment, context: Mapping[str, Any], templates: Path | None) -> str:
    return _tidied(rendered(environment, TEMPLATE, context, templates))


def rendered(environment: SandboxedEnvironment, name: str, context: Mapping[str, Any], templates: Path | None) -> str:
    """The template `name` over `context`, at most `MOST_CHARACTERS` of it. Raises UsageError, naming template and line."""
    parts: list[str] = []
    size = 0
    try:
        for part in environment.get_template(name).generate(context):
            size += len(part)
            if size > MOST_CHARACTERS:
                raise ValueError(f"it prints more than {MOST_CHARACTERS:,} characters")
            parts.append(part)
    except jinja2.TemplateError as error:
        raise _failure(error, templates) from error
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, OSError, MemoryError) as error:
        raise _failure(error, templates) from error
    return "".join(parts)


def _tidied(text: str) -> str:
    """Without white space at the ends of lines; one blank line where there are several, one line end at the end."""
    lines: list[str] = []
    for line in text.split("\n"):
        kept = line.rstrip()
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines).rstrip("\n") + "\n"


def record_context(review: Review, sources: Mapping[str, Sequence[Source]], limits: Limits) -> dict[str, Any]:
    """What templates see: plain texts, lists of them, and tables."""
    return {
        **head(review, limits),
        "proposed": proposed(review, limits),
        **plans(review, limits),
        "operators": operators(review, limits),
        **outlook(review, limits),
        **trail(review, sources, limits),
        **diagrams(review, pictures=limits.pictures),
        "boundaries": boundaries(review),
    }


def _environment(templates: Path | None) -> SandboxedEnvironment:
    environment = environment_for(templates, _printed)
    environment.filters |= {"table": _table, "code": _code, "verbatim": _verbatim}
    return environment


def environment_for(templates: Path | None, printed: Callable[[object], object]) -> SandboxedEnvironment:
    """A sandbox over the shipped templates, those of a folder before them; `printed` makes what is printed harmless."""
    loaders: list[jinja2.BaseLoader] = []
    if templates is not None:
        if not templates.is_dir():
            raise UsageError(
                f"the templates folder '{templates}' is not a folder",
                remedy=f"Name a folder that holds {TEMPLATE} or templates that it includes.",
                code="usage.templates",
            )
        loaders.append(jinja2.FileSystemLoader(templates, followlinks=False))
    loaders.append(jinja2.FunctionLoader(_shipped))
    return SandboxedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        # Markup stands for finished Markdown, so that macros compose; `_printed` makes everything else into it.
        autoescape=True,
        finalize=_finalize(printed),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
    )


def _finalize(printed: Callable[[object], object]) -> Callable[[object], object]:
    """An undefined name fails when it is printed, and so does a value that is not there; Markup is as it is."""

    def finalize(value: object) -> object:
        if isinstance(value, Markup | jinja2.Undefined):
            return value
        if value is None:
            raise jinja2.UndefinedError("a value that is not there (none) is printed")
        return printed(value)

    return finalize


def _shipped(name: str) -> tuple[str, str, None] | None:
    """A shipped template; its name stands in tracebacks, from which the line of a failure is read."""
    file = files("planproof.templates").joinpath(name)
    if "/" in name or not name.endswith(".j2") or not file.is_file():
        return None
    return file.read_text(encoding="utf-8"), name, None


def _printed(value: object) -> object:
    """What a template prints, escaped for Markdown."""
    return Markup(markdown(str(value)))  # escaped by `markdown`  # nosec B704


def _table(table: Table) -> Markup:
    return Markup(table_markdown(table))  # escaped by `table_markdown`  # nosec B704


def _code(text: str) -> Markup:
    return Markup(code(text))  # escaped by `code`  # nosec B704


def _verbatim(text: str) -> Markup:
    """For the inside of a fenced block or of the front matter, whose texts are made safe where they are written."""
    return Markup(text)  # made of escaped parts  # nosec B704


def _failure(error: Exception, templates: Path | None) -> PlanproofError:
    """The error with the template and line in which it arose."""
    name, line = TEMPLATE, None
    if isinstance(error, jinja2.TemplateSyntaxError):
        name, line = error.name or TEMPLATE, error.lineno
    else:
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.endswith((".j2", "<template>")) or "<template>" in file:
                name = TEMPLATE if "<" in file else Path(file).name
                line = trace.tb_lineno
            trace = trace.tb_next
    if isinstance(error, jinja2.TemplateNotFound):
        what = f"there is no template '{error.name}'"
    else:
        what = getattr(error, "message", None) or str(error) or type(error).__name__
    return UsageError(
        f"the template does not render: {what}",
        place=Place(name, line),
        remedy=f"Compare it with the '{TEMPLATE}' that planproof ships: it prints every name there is."
        if templates is not None
        else "This is a defect of planproof: please report it.",
        code="usage.template",
    )
