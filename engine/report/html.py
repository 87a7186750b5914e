"""The review as one HTML file that needs nothing else: the record's sections, with pictures, and findings that jump to
their facts.

The same texts and tables as the Markdown record, laid out by `record.html.j2`. No script, no address that is loaded, no
font: a policy in the file forbids them. Every text is escaped by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup, escape

from ..decision.review import Review
from ..facts import Fact
from .escape import clipped, visible
from .html_charts import candidates_svg, memory_svg, sensitivity_svg, timeline_svg
from .places import in_repository
from .record import LIMITS, environment_for, record_context, rendered
from .record_head import judged
from .tables import Table

TEMPLATE = "record.html.j2"
#: Findings and facts that are listed; the JSON has all.
MOST_FINDINGS, MOST_FACTS = 200, 400


def render_html(review: Review, templates: Path | None = None, *, block: str | None = None) -> str:
    """The report of `review`; templates in the folder replace the shipped ones. Raises UsageError as `render_record` does."""
    context = {
        **record_context(review, review.sources, LIMITS[0]),
        **_pictures(review),
        **_findings(review),
        "block": block or "",
    }
    return rendered(_environment(templates), TEMPLATE, context, templates)


def _environment(templates: Path | None) -> SandboxedEnvironment:
    environment = environment_for(templates, _printed)
    environment.filters |= {"table": _table, "code": _code, "verbatim": _verbatim, "slug": slug}
    return environment


def _printed(value: object) -> object:
    """What a template prints: HTML as it is, any other text escaped with its control characters shown."""
    return escape(visible(str(value)))


def slug(text: str) -> str:
    """A heading's anchor."""
    return "".join(char if char.isalnum() else "-" for char in text.lower())


def _table(table: Table) -> Markup:
    """A table with heads for screen readers, in a box that scrolls on a narrow screen."""
    if not table.rows:
        return Markup("")
    right = [head.endswith(":") for head in table.heads]
    heads = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(Markup(' class="n"') if number else "", visible(head.removesuffix(":")))
        for head, number in zip(table.heads, right, strict=True)
    )
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<th scope="row">{}</th>').format(visible(cell))
                if k == 0
                else Markup("<td{}>{}</td>").format(Markup(' class="n"') if right[k] else "", visible(cell))
                for k, cell in enumerate(row)
            )
        )
        for row in table.rows
    )
    more = Markup("<p>{}</p>").format(table.more) if table.more else Markup("")
    label = "Table: " + ", ".join(visible(head.removesuffix(":")) for head in table.heads)
    box = '<div class="box" role="region" tabindex="0" aria-label="{}"><table>{}</table></div>{}'
    body = Markup("<thead><tr>{}</tr></thead><tbody>{}</tbody>").format(heads, rows)
    return Markup(box).format(label, body, more)  # a text of ours  # nosec B704


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(visible(text))


def _verbatim(text: str) -> Markup:
    """Text that keeps its lines, for `pre`."""
    return Markup("\n").join(visible(line) if line.strip() == line else line.replace("\t", "    ") for line in text.split("\n"))


def _pictures(review: Review) -> dict[str, Any]:
    best, subject = review.candidate(review.recommended), judged(review)
    shown = [one for one in dict.fromkeys((best, subject)) if one is not None]
    return {
        "memory_pictures": [
            Markup(memory_svg(one.memory, f"{one.id} {'recommended' if one is best else clipped(one.plan.name, 40)}"))  # nosec B704
            for one in shown
            if one.memory
        ],
        "candidates_picture": Markup(candidates_svg(review.candidates, review.recommended)),  # escaped where it is drawn  # nosec B704
        "sensitivity_picture": Markup(sensitivity_svg(review.sensitivity)),  # escaped where it is drawn  # nosec B704
        "timelines": [
            {"name": f"{one.id} {'recommended' if one is best else clipped(one.plan.name, 40)}", "picture": Markup(picture)}  # nosec B704
            for one in shown
            if one.priced is not None and (picture := timeline_svg(one.priced))
        ],
    }


def _findings(review: Review) -> dict[str, Any]:
    """Findings with links to the facts that they are about, and those facts once each."""
    file = in_repository(review.case.loaded)
    numbers: dict[tuple[object, ...], int] = {}
    facts: list[dict[str, Any]] = []
    found = []
    for finding in [one for one in review.findings if one.suppressed is None][:MOST_FINDINGS]:
        links = []
        for name, fact in finding.bindings:
            identity = (fact.kind, fact.path, tuple(sorted((key, str(value)) for key, value in fact.values.items())))
            if identity not in numbers and len(facts) < MOST_FACTS:
                numbers[identity] = len(facts) + 1
                facts.append(_fact(fact, len(facts) + 1, review, file))
            if identity in numbers:
                links.append({"name": name, "kind": fact.kind, "id": numbers[identity]})
        line, _ = review.place(finding.path)
        found.append(
            {
                "rule": finding.rule_id,
                "severity": finding.severity.value,
                "title": finding.title,
                "message": finding.message,
                "remedy": finding.remedy,
                "place": f"{file}:{line}" if line is not None else file,
                "facts": links,
            }
        )
    return {"all_findings": found, "facts": facts}


def _fact(fact: Fact, number: int, review: Review, file: str) -> dict[str, Any]:
    values: Mapping[str, object] = fact.values
    line, _ = review.place(fact.path)
    return {
        "id": number,
        "kind": fact.kind,
        "place": f"{file}:{line}" if line is not None else file,
        "values": [(name, clipped(str(values[name]), 200)) for name in sorted(values) if values[name] is not None],
    }
