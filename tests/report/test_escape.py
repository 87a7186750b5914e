"""Text of strangers shows as text: in Markdown, in tables, at a terminal, in front matter."""

from __future__ import annotations

import html
import re

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from planproof.report.escape import clipped, code, fence_for, markdown, terminal, visible, yaml_text
from planproof.report.tables import Table, capped, table_markdown, table_text

HOSTILE = [
    "a | b",
    "a \\| b",
    "`x` ``y",
    "<img src=x onerror=alert(1)>",
    "<!-- decision: begin -->",
    "[x](javascript:alert(1))",
    "![x](http://e.example/a.png)",
    "*b* _i_ ~~s~~ $m$",
    "# heading\n## other",
    "- item",
    "1. item",
    "> quoted",
    "---",
    "```\nfence\n```",
    "&lt;script&gt;",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe",
    "\u200bzero\u2066width\u2069",
    "line\u2028separator\x85next",
    "\ud800",
]
texts = st.one_of(st.text(max_size=60), st.text(alphabet="\\|`*_[]<>#~$&-+=>1.) \n\tab", max_size=30))


def cells(line: str) -> list[str]:
    """The cells of a table row as GitHub's parser splits it: at bars that no backslash escapes."""
    assert line.startswith("|")
    assert line.endswith("|")
    return re.findall(r"((?:\\.|[^|\\])*)\|", line[1:])


def unescaped(text: str) -> str:
    """What an escaped text shows: backslashes before punctuation undone, entities read."""
    shown = re.sub(r"\\([!-/:-@\[-`{-~])|(&#?\w+;)", lambda one: one[1] or html.unescape(one[2]), text)
    return shown.replace("\u200b", "")


@given(texts)
@example("a_b _c_ d__e")
@example("&amp;lt; &#60; & &x")
def test_markdown_shows_what_was_written_and_nothing_else(text: str) -> None:
    assert unescaped(markdown(text)) == visible(text)


@given(texts)
def test_no_character_that_markdown_acts_on_stands_bare(text: str) -> None:
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", markdown(text))
    assert not set(bare) & set("\\`*[]|~$#<")
    assert "\n" not in bare
    assert re.search(r"(?<![^\W_])_|_(?![^\W_])", re.sub(r"\\.", "x", markdown(text))) is None


@given(texts)
def test_no_text_begins_a_list_a_quotation_or_a_ruler(text: str) -> None:
    assert re.match(r"\s|[-+=>]|\d{1,9}[.)](\s|$)", markdown(text)) is None


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4), st.tuples(texts, texts, texts))
def test_a_table_keeps_its_columns_and_rows_whatever_its_cells_hold(
    rows: list[tuple[str, str, str]], heads: tuple[str, str, str]
) -> None:
    lines = table_markdown(Table(heads, tuple(rows))).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(len(cells(line)) == 3 for line in lines)
    assert "<" not in "".join(lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_one_cell_without_markup(text: str) -> None:
    row = table_markdown(Table(("a", "b"), ((text, "next"),))).split("\n")[2]
    assert len(cells(row)) == 2
    assert "<" not in row
    assert row.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_gets_nothing_that_it_would_obey(text: str) -> None:
    assert all(line.isprintable() for line in terminal(text).split("\n"))
    assert visible(text).isprintable()


def test_a_terminal_text_keeps_its_lines_and_shows_escapes() -> None:
    assert terminal("a\tb\nc\x1b[31m\u202e") == "a    b\nc\\x1b[31m\\u202e"
    assert visible("a\n b\U000e0001") == "a b\\U000e0001"


@given(texts)
def test_a_code_span_is_closed_by_its_own_fence_only(text: str) -> None:
    span = code(text)
    if not span.startswith("`"):
        assert span == markdown(text)
        return
    fence = re.match(r"`+", span)[0]
    assert span.endswith(fence)
    assert fence not in re.findall(r"`+", span[len(fence) : -len(fence)])
    assert "|" not in span


@given(st.text(alphabet="`a\n", max_size=20))
def test_nothing_in_a_block_closes_its_fence(text: str) -> None:
    fence = fence_for(text)
    assert len(fence) >= 3
    assert fence not in text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_front_matter_reads_back_as_what_was_written(text: str) -> None:
    line = yaml_text(text)
    assert "\n" not in line
    assert line.isprintable()
    assert yaml.safe_load(f"title: {line}") == {"title": text}


def test_a_cut_text_says_so() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abc..."


def test_rows_beyond_the_limit_are_counted() -> None:
    table = capped(("a",), [("1",), ("2",), ("3",)], 2, "plans")
    assert table.rows == (("1",), ("2",))
    assert "1 more plans" in table_markdown(table)
    assert "1 more plans" in table_text(table)
    assert not capped(("a",), [], 2)


def test_a_terminal_table_has_columns_of_equal_width() -> None:
    assert table_text(Table(("name", "s:"), (("a|b", "1.5"), ("c\x1b", "12.25")))) == (
        "name       s\n-----  -----\na|b      1.5\nc\\x1b  12.25"
    )


@pytest.mark.parametrize(
    "text",
    ["@everyone", "a@b.example", "see https://e.example/x", "HTTP://E.example", "www.e.example", "see #12", "GH-7", "x/y#3"],
)
def test_nothing_of_a_stranger_is_live_on_github(text: str) -> None:
    shown = html.unescape(markdown(text).replace("\\", ""))
    assert shown.replace("\u200b", "") == text
    assert re.search(r"@\w|(?i:https?|ftp)://|(?i:www)\.|#\d|GH-\d", shown) is None
    assert markdown(text, live=True).replace("\\", "") == text
