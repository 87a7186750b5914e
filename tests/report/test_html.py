"""The HTML report: one file, no network, nothing live, read by people and by screen readers, drawn by a browser."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from planproof.cost import StageMemory
from planproof.errors import UsageError
from planproof.quantity import Dimension, human
from planproof.report.figures import gib
from planproof.report.html import render_html
from planproof.report.html_charts import MOST_TASKS, candidates_svg, memory_svg, ticks, timeline_svg
from planproof.report.timeline import timeline
from report_cases import BARE, DENSE, bare, dense, reviewed

HOSTILE = '"</title><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}\\u202Ez [l](javascript:3)"'
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
#: Elements that have no end.
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Elements in order with their attributes, and whether every one that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@cache
def page() -> str:
    return render_html(dense())


@pytest.mark.parametrize("case", [dense, bare])
def test_elements_close_and_nothing_is_loaded_or_run(case: object) -> None:
    assert callable(case)
    text = render_html(case())
    found = Page(text)
    assert (found.wrong, found.open) == ([], [])
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in found.elements}
    assert all(not name.startswith("on") for _, attributes in found.elements for name in attributes)
    assert "url(" not in text
    assert "@import" not in text
    assert all(str(one["href"]).startswith("#") for one in found.of("a"))
    assert any("default-src 'none'" in str(one.get("content")) for one in found.of("meta"))


def test_every_link_leads_somewhere_and_findings_to_their_facts() -> None:
    found = Page(page())
    ids = [str(attributes["id"]) for _, attributes in found.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = {str(one["href"])[1:] for one in found.of("a")}
    assert links <= set(ids)
    facts = {one for one in links if one.startswith("fact-")}
    assert len(facts) == len([one for one in ids if one.startswith("fact-")]) > 5


def test_it_can_be_read_aloud_and_by_keyboard() -> None:
    found = Page(page())
    assert found.of("html")[0]["lang"] == "en"
    assert [len(found.of(tag)) for tag in ("h1", "main", "nav", "header")] == [1, 1, 1, 1]
    pictures = found.of("svg")
    assert len(pictures) >= 4
    ids = {attributes.get("id") for _, attributes in found.elements}
    for one in pictures:
        assert one["role"] == "img"
        assert set(str(one["aria-labelledby"]).split()) <= ids
    assert all(one.get("scope") in ("col", "row") for one in found.of("th"))
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_what_scrolls_can_be_reached_by_keyboard_and_says_what_it_is() -> None:
    found = Page(page())
    boxes = [one for one in found.of("div") if one.get("class") in ("box", "drawn")]
    assert len(boxes) >= len(found.of("table")) + len(found.of("svg"))
    assert all((one["tabindex"], one["role"]) == ("0", "region") and len(str(one["aria-label"])) > 5 for one in boxes)
    assert len(found.of("figcaption")) == len(found.of("figure")) == len(found.of("svg"))


def test_a_plan_far_too_large_leaves_the_others_apart() -> None:
    """The picture of candidates ends at 2.5 devices' worth of memory; who needs more stands at the edge with its figure."""
    review = dense()
    shown = [one for one in review.candidates if one.step is not None and one.memory]

    def times(memory: StageMemory, factor: float) -> StageMemory:
        rows = tuple(replace(row, bytes=row.bytes * factor) for row in memory.rows)
        return replace(memory, rows=rows, device=memory.device.scaled(factor))

    huge = [replace(shown[0], memory=tuple(times(one, 40.0) for one in shown[0].memory)), *shown[1:]]
    picture = candidates_svg(huge, review.recommended)
    assert f">{shown[0].id} at {gib(max(one.device.value for one in huge[0].memory))} GiB<" in picture
    heights = [float(one) for one in re.findall(r'cy="([0-9.]+)"', picture)]
    assert heights[0] == 14
    assert max(heights) > 60
    names = [(float(x), float(y)) for x, y in re.findall(r'class="label" x="([0-9.]+)" y="([0-9.]+)"', picture)]
    assert all(abs(a[0] - b[0]) > 17 or abs(a[1] - b[1]) > 11 for a, b in combinations(names, 2))


def test_the_capacity_is_named_where_no_bar_reaches() -> None:
    best = dense().candidate(dense().recommended)
    assert best is not None
    picture = memory_svg(best.memory, "x")
    found = re.findall(r'<rect class="m\d" x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)" height="24"', picture)
    bars = [float(x) + float(w) for x, w in found]
    places = [float(x) for x in re.findall(r'x="([0-9.]+)" y="[0-9.]+" text-anchor="end">[0-9.]+ GiB<', picture)]
    assert places
    assert min(places) - 75 > max(bars)


SCRIPT = """
import sys
from pathlib import Path
from planproof.pipeline import Options, review
from planproof.report.html import render_html
sys.stdout.buffer.write(render_html(review(Path(sys.argv[1]), Options(work_limit=3))).encode())
"""


def test_the_same_bytes_whatever_the_hash_seed_locale_and_time_zone(tmp_path: Path) -> None:
    path = tmp_path / "proposal.yaml"
    # Without a pipeline the space is small, and the page has the stated one's stages all the same.
    path.write_text(DENSE.replace("allow: [data, tensor, pipeline]", "allow: [data, tensor]"), encoding="utf-8")
    pages = set()
    for seed, locale, zone in (("0", "C", "UTC"), ("4242", "C.UTF-8", "Pacific/Auckland")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": zone}
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], env=environment, capture_output=True, check=True)
        pages.add(done.stdout)
    assert len(pages) == 1
    assert len(pages.pop()) > 20_000


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_the_contrast_that_wcag_asks_for_in_light_and_dark() -> None:
    """WCAG 2.2, 1.4.3: 4.5 for text; 1.4.11: 3 for what carries meaning in a picture."""
    schemes = re.findall(r":root \{([^}]*)\}", page())
    assert len(schemes) == 3
    light = dict(re.findall(r"--([\w]+):(#[0-9a-f]{3,6})", schemes[0], re.IGNORECASE))
    dark = light | dict(re.findall(r"--([\w]+):(#[0-9a-f]{3,6})", schemes[1], re.IGNORECASE))

    def contrast(one: str, two: str) -> float:
        bright, dim = sorted((luminance(one), luminance(two)), reverse=True)
        return (bright + 0.05) / (dim + 0.05)

    for scheme in (light, dark):
        for text in ("text", "soft", "link"):
            for ground in ("ground", "panel"):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
        for mark in ("bad", "good", "warn", "t0", "t1", "t2"):
            assert contrast(scheme[mark], scheme["ground"]) >= 3, mark


def test_hostile_titles_show_as_text() -> None:
    text = render_html(reviewed(BARE.replace("TITLE", HOSTILE).replace("NAME", HOSTILE), "bare.yaml"))
    found = Page(text)
    assert (found.wrong, found.open) == ([], [])
    assert "<script" not in text
    assert "<img" not in text
    assert "{{ 7*7 }}" in text
    assert "\u202e" not in text


def test_numbers_of_the_pictures_stand_in_tables_beside_them() -> None:
    text = page()
    for one in dense().candidates:
        assert f">{one.id}<" in text
    best = dense().candidate(dense().recommended)
    assert best is not None
    for memory in best.memory:
        assert f"{memory.device.value / 2**30:.2f} ({memory.device.low / 2**30:.2f}" in text


def test_a_block_of_people_and_a_users_template(tmp_path: Path) -> None:
    assert "Accepted &lt;b&gt;" in render_html(bare(), block="Accepted <b>")
    (tmp_path / "record.html.j2").write_text("<p>{{ title }}</p>\n{{ nothing }}\n")
    with pytest.raises(UsageError) as raised:
        render_html(bare(), tmp_path)
    assert (raised.value.place.file, raised.value.place.line) == ("record.html.j2", 2)
    (tmp_path / "record.html.j2").write_text("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}")
    with pytest.raises(UsageError, match="characters"):
        render_html(bare(), tmp_path)


def test_the_picture_draws_the_simulated_tasks_and_no_more() -> None:
    priced = next(one.priced for one in dense().candidates if one.plan.pipeline > 1 and one.priced is not None)
    picture = timeline_svg(priced)
    line = timeline(priced, MOST_TASKS * priced.plan.pipeline)
    assert picture.count("<rect class=\"t0\"") == line.shown * priced.plan.pipeline * priced.plan.interleave + 1
    assert f"the first {line.shown} of {line.microbatches} microbatches" in picture or line.shown == line.microbatches
    assert human(line.simulation.makespan, Dimension.TIME) in picture


def test_ticks_are_round() -> None:
    assert ticks(36.1) == [0, 5, 10, 15, 20, 25, 30, 35]
    assert all(4 <= len(ticks(10 ** (k / 7))) <= 11 for k in range(-20, 20))


def pixels(path: Path) -> tuple[int, int, list[bytes]]:
    """Width, height and rows of an 8-bit PNG without interlacing, filters undone."""
    data = path.read_bytes()
    width, height, _, colour = struct.unpack(">IIBB", data[16:26])
    each = {2: 3, 6: 4}[colour]
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    raw, rows, above = zlib.decompress(packed), [], bytes(width * each)
    for k in range(height):
        kind, line = raw[k * (width * each + 1)], bytearray(raw[k * (width * each + 1) + 1 : (k + 1) * (width * each + 1)])
        for x in range(len(line)):
            left, up = line[x - each] if x >= each else 0, above[x]
            corner = above[x - each] if x >= each else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[x] = (line[x] + (0, left, up, (left + up) // 2, near)[kind]) & 255
        rows.append(bytes(line[x] for x in range(len(line)) if x % each < 3))
        above = bytes(line)
    return width, height, rows


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed and none could be: apt-get install chromium")
@pytest.mark.parametrize(("scheme", "bright"), [("1", True), ("0", False)])
def test_a_browser_draws_it_in_light_and_dark(scheme: str, bright: bool, tmp_path: Path) -> None:
    path, picture = tmp_path / "report.html", tmp_path / "report.png"
    path.write_text(page(), encoding="utf-8")
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=360,500",
        f"--user-data-dir={tmp_path / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}",
        "--enable-logging=stderr", f"--screenshot={picture}", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert picture.is_file(), done.stderr[-800:]
    assert "CONSOLE" not in done.stderr
    width, height, rows = pixels(picture)
    assert (width, height) == (360, 500)
    light = sum(sum(row) for row in rows) / (3 * width * height)
    assert light > 190 if bright else light < 70
    # Not one colour: there is text, a panel and a coloured mark on the first screen.
    assert len({row[x : x + 3] for row in rows for x in range(0, len(row), 3)}) > 30
