"""The pictures of the HTML report, each an SVG of its own: memory by stage, candidates, sensitivity, the pipeline's timeline.

Colours are classes that the page's style sheet gives a light and a dark value. Every picture has a title and a description
for those who do not see it, and stands beside a table with its numbers. Text is escaped; nothing here is computed but
positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from xml.sax.saxutils import escape

from ..cost import Priced, StageMemory
from ..decision.review import Candidate
from ..decision.sensitivity import Sensitivity
from ..quantity import Dimension, human
from .escape import clipped, visible
from .figures import digits, gib
from .stages import grouped, telling
from .timeline import timeline

WIDTH = 880
_LEFT = 150
#: Memory rows that have a colour of their own; the rest is "other".
ROWS = ("parameters", "gradients", "optimizer state", "in-flight activations", "framework context", "allocator reserve")
#: Stages and tasks a stage that the timeline draws.
MOST_STAGES, MOST_TASKS = 16, 48
#: Where the picture of the candidates ends: a plan that needs more memory than this many devices' worth is drawn at the edge.
MOST_CAPACITIES = 2.5
_PASSES = ("forward", "backward", "weight gradient")


def memory_svg(ledger: Sequence[StageMemory], name: str) -> str:
    """Stacked bars a group of stages that need the same, with the high end of the interval and the capacity line."""
    groups = grouped(len(ledger), lambda k: (ledger[k].capacity_bytes, *((row.name, row.bytes) for row in ledger[k].rows)))
    peak = min(ledger, key=lambda memory: memory.capacity_bytes - memory.device.value).stage
    shown, left = telling(groups, peak)
    most = max(max(ledger[one.first].device.high, ledger[one.first].capacity_bytes) for one in shown) * 1.04
    scale = (WIDTH - _LEFT - 90) / most
    body: list[str] = []
    y = 10.0
    for one in shown:
        memory = ledger[one.first]
        body.append(_text(_LEFT - 8, y + 17, one.label, "end"))
        x = float(_LEFT)
        parts = [(row.name, row.bytes) for row in memory.rows if row.name in ROWS and row.bytes > 0]
        parts.append(("other", sum(row.bytes for row in memory.rows if row.name not in ROWS)))
        for part, amount in parts:
            width = amount * scale
            kind = ROWS.index(part) if part in ROWS else len(ROWS)
            hover = f"<title>{_safe(f'{one.label}: {part} {gib(amount)} GiB')}</title>"
            body.append(f'<rect class="m{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.4):.1f}" height="24">{hover}</rect>')
            x += width
        low, high = _LEFT + memory.device.low * scale, _LEFT + memory.device.high * scale
        body.append(
            f'<path class="whisker" d="M{low:.1f} {y + 12:.1f}H{high:.1f}M{high:.1f} {y + 6:.1f}v12M{low:.1f} {y + 6:.1f}v12"/>'
        )
        edge = _LEFT + memory.capacity_bytes * scale
        body.append(f'<path class="capacity" d="M{edge:.1f} {y - 4:.1f}v32"/>')
        # At the right edge, where no bar reaches: a capacity far below what is needed would stand on the bar.
        body.append(_text(WIDTH - 4, y + 17, f"{gib(memory.capacity_bytes)} GiB", "end"))
        y += 36
    if left:
        body.append(_text(_LEFT, y + 10, f"{left} more groups of stages are not drawn", "start", "soft"))
        y += 20
    used = [
        k
        for k, row in enumerate(ROWS)
        if any(memory.rows and any(r.name == row and r.bytes for r in memory.rows) for memory in ledger)
    ]
    x = float(_LEFT)
    y += 8
    for k in [*used, len(ROWS)]:
        label = ROWS[k] if k < len(ROWS) else "other"
        if x + 24 + 7.2 * len(label) > WIDTH:
            x, y = float(_LEFT), y + 20
        body.append(
            f'<rect class="m{k}" x="{x:.1f}" y="{y:.1f}" width="12" height="12"/>' + _text(x + 17, y + 11, label, "start", "soft")
        )
        x += 36 + 7.2 * len(label)
    worst = ledger[peak]
    words = (
        f"Fullest is stage {peak}: {gib(worst.device.value)} GiB ({gib(worst.device.low)} to {gib(worst.device.high)}) of "
        f"{gib(worst.capacity_bytes)} GiB."
    )
    return _svg(y + 22, f"Memory by stage of {name}, against the capacity", words, body)


def candidates_svg(candidates: Sequence[Candidate], recommended: str | None) -> str:
    """Step time against device memory of the fullest rank, with both intervals."""
    points = [one for one in candidates if one.step is not None and one.memory]
    if not points:
        return ""
    peaks = {one.id: min(one.memory, key=lambda memory: memory.capacity_bytes - memory.device.value) for one in points}
    high_t = max(one.step.high for one in points if one.step is not None) * 1.05
    capacity = max(peaks[one.id].capacity_bytes for one in points)
    # A plan that needs many times the capacity is drawn at the upper edge: the others would lie on one line else.
    high_m = min(max(capacity, *(peaks[one.id].device.high for one in points)) * 1.08, MOST_CAPACITIES * capacity)
    height, left, bottom = 300.0, 70.0, 40.0
    plot_w, plot_h = WIDTH - left - 20, height - bottom - 14

    def at(seconds: float, memory: float) -> tuple[float, float]:
        return left + seconds / high_t * plot_w, 14 + plot_h - min(memory / high_m, 1.0) * plot_h

    body = [f'<path class="axis" d="M{left} 14V{14 + plot_h:.1f}H{left + plot_w:.1f}"/>']
    for tick in ticks(high_t):
        body.append(_text(at(tick, 0)[0], height - 22, human(tick, Dimension.TIME), "middle", "soft"))
    for tick in ticks(high_m / 2**30):
        body.append(_text(left - 6, at(0, tick * 2**30)[1] + 4, digits(tick), "end", "soft"))
    _, top = at(0, capacity)
    body.append(f'<path class="capacity" d="M{left} {top:.1f}H{left + plot_w:.1f}"/>')
    body.append(_text(left + plot_w, top - 5, f"capacity {gib(capacity)} GiB", "end", "soft"))
    body.append(_text(left + plot_w / 2, height - 4, "step time", "middle", "soft"))
    body.append(
        f'<text class="soft" transform="translate(14 {14 + plot_h / 2:.0f}) rotate(-90)" text-anchor="middle">memory, GiB</text>'
    )
    places = [at(one.step.value, peaks[one.id].device.value) for one in points if one.step is not None]
    labels = _labels(places, left + plot_w)
    for one, (x, y), (label_x, label_y, anchor) in zip(points, places, labels, strict=True):
        assert one.step is not None
        memory = peaks[one.id].device
        (x0, _), (x1, _) = at(one.step.low, 0), at(one.step.high, 0)
        (_, y0), (_, y1) = at(0, memory.low), at(0, memory.high)
        kind = "best" if one.id == recommended else "bad" if one.feasible == "no" or one.fallen else "plan"
        hover = f"{one.id} {clipped(one.plan.name, 40)}: {one.step}, {gib(memory.value)} GiB"
        body.append(f'<path class="whisker" d="M{x0:.1f} {y:.1f}H{x1:.1f}M{x:.1f} {y0:.1f}V{y1:.1f}"/>')
        body.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{_safe(hover)}</title></circle>')
        beyond = f" at {gib(memory.value)} GiB" if memory.value > high_m else ""
        body.append(_text(label_x, label_y, f"{one.id}{beyond}", anchor))
    return _svg(
        height, "Candidates by step time and memory", f"{len(points)} priced plans; the recommended one is {recommended}.", body
    )


def _labels(places: Sequence[tuple[float, float]], right: float) -> list[tuple[float, float, str]]:
    """A place for the name of each point, beside it and clear of the other points and names where one can be had."""
    found: list[tuple[float, float, str]] = []
    taken: list[tuple[float, float]] = []
    for x, y in places:
        tried = [(side, lift) for lift in (-9.0, 19.0, -24.0, 34.0) for side in (9.0, -9.0)]

        def crowded(side: float, lift: float, x: float = x, y: float = y) -> int:
            middle = (x + side * 2.2, y + lift - 5)
            points = sum(abs(middle[0] - px) < 17 and abs(middle[1] - py) < 12 for px, py in places)
            names = sum(abs(middle[0] - tx) < 26 and abs(middle[1] - ty) < 14 for tx, ty in taken)
            return points + 2 * names + (side > 0 and x + 40 > right)

        side, lift = min(tried, key=lambda one: (crowded(*one), tried.index(one)))
        taken.append((x + side * 2.2, y + lift - 5))
        found.append((x + side, max(y + lift, 11.0), "start" if side > 0 else "end"))
    return found


def ticks(most: float) -> list[float]:
    """Round values from 0 to `most`, four to ten of them."""
    size = 10.0 ** floor(log10(most))
    step = next(size * part for part in (0.1, 0.2, 0.5, 1.0) if most / (size * part) <= 10)
    return [step * k for k in range(int(most / step) + 1)]


def sensitivity_svg(rows: Sequence[Sensitivity]) -> str:
    """How far each input may move, as a factor of today's value: the free span, and the range of its evidence inside it."""
    shown = [one for one in rows if one.today > 0]
    if not shown:
        return ""
    left, right = 330.0, WIDTH - 20.0
    reach = 1.0  # a factor of 10 either way

    def at(factor: float) -> float:
        place = min(max(log10(factor), -reach), reach) if factor > 0 else -reach
        return left + (place + reach) / (2 * reach) * (right - left)

    body: list[str] = []
    y = 8.0
    bottom = y + 28 * len(shown)
    for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
        kind = "now" if factor == 1 else "grid"
        body.append(f'<path class="{kind}" d="M{at(factor):.1f} {y}V{bottom:.1f}"/>')
        body.append(_text(at(factor), bottom + 16, f"x {factor:g}", "middle", "soft"))
    for one in shown:
        low = one.below.value / one.today if one.below is not None else 0.0
        high = one.above.value / one.today if one.above is not None else 1e9
        body.append(_text(left - 10, y + 17, clipped(one.name, 44), "end"))
        hover = f"<title>{_safe(f'{one.name}: the answer holds from x {digits(low)} to x {digits(min(high, 1e9))}')}</title>"
        body.append(
            f'<rect class="holds" x="{at(low):.1f}" y="{y + 5:.1f}" width="{max(at(high) - at(low), 1):.1f}" '
            f'height="16">{hover}</rect>'
        )
        for edge in (one.below, one.above):
            if edge is not None and 10**-reach <= edge.value / one.today <= 10**reach:
                x = at(edge.value / one.today)
                body.append(f'<path class="{"inside" if edge.inside else "edge"}" d="M{x:.1f} {y + 1:.1f}v24"/>')
        if one.high > one.low:
            start, end = at(one.low / one.today), at(one.high / one.today)
            body.append(
                f'<path class="whisker" d="M{start:.1f} {y + 13:.1f}H{end:.1f}M{start:.1f} {y + 8:.1f}v10'
                f'M{end:.1f} {y + 8:.1f}v10"/>'
            )
        y += 28
    inside = [one.name for one in shown for edge in (one.below, one.above) if edge is not None and edge.inside]
    words = f"Inside its own range can change the answer: {', '.join(dict.fromkeys(inside)) or 'no input'}."
    return _svg(bottom + 24, "How far each input may move before the answer changes", words, body)


def timeline_svg(priced: Priced) -> str:
    """The simulated tasks of each stage in time; empty for a plan without a pipeline."""
    plan = priced.plan
    if plan.pipeline < 2 or priced.step.pipeline is None:
        return ""
    line = timeline(priced, MOST_TASKS * plan.pipeline)
    stages = min(plan.pipeline, MOST_STAGES)
    tasks = [one for one in line.events if one.stage < stages and one.microbatch >= 0 and one.stream == "compute"]
    end = max((one.start + one.seconds for one in tasks), default=1.0)
    scale = (WIDTH - 100) / end
    body: list[str] = []
    for stage in range(stages):
        y = 6 + 26 * stage
        body.append(_text(84, y + 15, f"stage {stage}", "end"))
        body.append(f'<rect class="idle" x="90" y="{y}" width="{WIDTH - 100}" height="20"/>')
    for one in tasks:
        kind = "FBW".index(one.name[0])
        x, width, y = 90 + one.start * scale, one.seconds * scale, 6 + 26 * one.stage
        hover = _safe(
            f"stage {one.stage}, {_PASSES[kind]} of microbatch {one.microbatch}: {human(one.start, Dimension.TIME)} to "
            f"{human(one.start + one.seconds, Dimension.TIME)}"
        )
        body.append(
            f'<rect class="t{kind}" x="{x:.2f}" y="{y}" width="{max(width - 0.4, 0.3):.2f}" height="20">'
            f"<title>{hover}</title></rect>"
        )
    y = 6 + 26 * stages + 8
    for k, kind in enumerate(sorted({"FBW".index(one.name[0]) for one in tasks})):
        body.append(f'<rect class="t{kind}" x="{90 + 150 * k}" y="{y}" width="12" height="12"/>')
        body.append(_text(107 + 150 * k, y + 11, _PASSES[kind], "start", "soft"))
    cut = f"the first {line.shown} of {line.microbatches} microbatches" if line.shown < line.microbatches else "all microbatches"
    drawn = f"{stages} of {plan.pipeline} stages, " if stages < plan.pipeline else ""
    words = f"{drawn}{cut}, {plan.schedule.value}, {human(end, Dimension.TIME)} without what follows the pipeline."
    body.append(_text(90, y + 30, words, "start", "soft"))
    return _svg(y + 40, f"Timeline of the pipeline of {plan.name}", words, body)


def _svg(height: float, title: str, words: str, body: Sequence[str]) -> str:
    name = "".join(char if char.isalnum() else "-" for char in title.lower())[:40]
    head = f'<svg role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {WIDTH} {height:.0f}">'
    return f'{head}<title id="{name}-t">{_safe(title)}</title><desc id="{name}-d">{_safe(words)}</desc>{"".join(body)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(visible(text), {'"': "&quot;"})
