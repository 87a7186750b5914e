"""Suppressions as comments: one strict form, the line that each speaks of, and what it is worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.document import parse_document
from planproof.errors import InputError
from planproof.inference import Suppression
from planproof.inference.comments import MAX_COMMENTS, Comment, judged, read_comments
from rule_texts import rule

GOOD = 'ignore MAP004 reason="known" owner=ops until=2027-01-31'
TEXT = """\
a: 1  # planproof: COMMENT
# planproof: COMMENT

# another comment
b:
  c: 2
d: [1,   # planproof: COMMENT
    2]
e: |
  # planproof: not a comment
f: "# planproof: nor this"
#planproof: COMMENT
"""


def read(text: str, name: str = "p.yaml") -> tuple[Comment, ...]:
    return read_comments(parse_document(text.encode(), name))


def one(body: str) -> Comment:
    (comment,) = read(f"a: 1  # planproof: {body}\n")
    return comment


def test_a_comment_speaks_of_its_own_line_or_of_the_next_with_a_value() -> None:
    found = read(TEXT.replace("COMMENT", GOOD))
    assert [(comment.place.line, comment.suppression.line, comment.pointer) for comment in found] == [
        (1, 1, "/a"), (2, 5, "/b"), (7, 7, "/d"), (12, 12, ""),
    ]  # fmt: skip
    assert [comment.place.column for comment in found] == [7, 1, 10, 1]


def test_the_parts_of_a_suppression() -> None:
    made = one(r'ignore MAP004 until=2027-01-31 owner=a.b+c@x/y reason="a \"b\" \\ # c"').suppression
    assert made == Suppression("MAP004", r'a "b" \ # c', "a.b+c@x/y", date(2027, 1, 31), line=1)


def test_json_has_no_comments() -> None:
    assert read('{"a": "# planproof: ignore"}', "p.json") == ()
    assert read("# yaml-language-server: $schema=x\n# about planproof: nothing\nplanproof: 1\n") == ()


@pytest.mark.parametrize(
    ("body", "words", "column"),
    [
        ("", "says 'ignore'; this one says nothing", 19),
        ("1", "this one says '1'", 20),
        ("ingore MAP004", "this one says 'ingore'", 20),
        ("ignore", "the id of one rule.*nothing", 27),
        ("ignore map004 reason=x", "the id of one rule.*'map004'", 27),
        ("ignore MAP004,MAP005", "the id of one rule", 27),
        ("ignore MAP004 MAP005", "'MAP005' stands where a field is expected", 34),
        ('ignore MAP004 reason="r" owner=o', "lacks 'until'", 7),
        ('ignore MAP004 until=2027-01-31 reason="r"', "lacks 'owner'", 7),
        ("ignore MAP004", "lacks 'reason', 'owner' and 'until'", 7),
        ("ignore MAP004 reason=known owner=o until=2027-01-31", "'reason' is written in double quotes", 41),
        ('ignore MAP004 reason="open owner=o', "in double quotes", 41),
        ('ignore MAP004 reason=" " owner=o until=2027-01-31', "The reason is empty", 41),
        (r'ignore MAP004 reason="a\n" owner=o until=2027-01-31', "in double quotes", 41),
        ('ignore MAP004 owner="o" reason="r" until=2027-01-31', "without quotes", 40),
        ("ignore MAP004 owner=a,b", "is no name", 40),
        ("ignore MAP004 owner= until=2027-01-31", "is no name", 40),
        ("ignore MAP004 until=2027-02-30", "'2027-02-30' is none", 40),
        ("ignore MAP004 until=31.01.2027", "is none", 40),
        ("ignore MAP004 until=20270131", "is none", 40),
        ("ignore MAP004 until=2027-01-31T00:00", "is none", 40),
        ("ignore MAP004 owner=o owner=p", "'owner' stands twice", 42),
        ("ignore MAP004 ower=o", "no field 'ower' .did you mean 'owner'", 34),
        (GOOD + " and more", "'and more' stands where a field is expected", 76),
        (GOOD + " x=1", "no field 'x'", 76),
    ],
)
def test_what_is_malformed_is_one_error_at_its_character(body: str, words: str, column: int) -> None:
    with pytest.raises(InputError, match=words) as caught:
        one(body)
    error = caught.value
    assert (error.code, error.exit_status, error.place.file, error.place.line) == ("input.suppression", 2, "p.yaml", 1)
    assert error.place.column == column
    assert "reason=" in (error.remedy or "")


#: What a line of YAML may hold: no control characters, and nothing that ends it.
SHOWN = st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp"), blacklist_characters="\x85\ufeff\ufffe\uffff")
REASONS = st.text(SHOWN, min_size=1).filter(str.strip)


@given(REASONS, st.from_regex(r"[A-Za-z0-9._@/+-]+", fullmatch=True), st.dates(), st.permutations(range(3)))
def test_what_is_written_is_what_is_read(reason: str, owner: str, until: date, order: list[int]) -> None:
    quoted = reason.replace("\\", "\\\\").replace('"', '\\"')
    fields = [f'reason="{quoted}"', f"owner={owner}", f"until={until.isoformat()}"]
    text = " ".join(fields[k] for k in order)
    assert one(f"ignore MAP004 {text}").suppression == Suppression("MAP004", reason, owner, until, line=1)


@given(st.text(SHOWN, max_size=60))
def test_any_other_comment_is_read_or_refused_in_one_error(body: str) -> None:
    try:
        found = one(body)
    except InputError as error:
        assert error.code == "input.suppression"
        assert error.place.column is not None
        assert 1 <= error.place.column <= len(f"a: 1  # planproof: {body}") + 1
    else:
        assert found.suppression.until is not None


def test_what_a_comment_is_worth_on_a_day() -> None:
    first = rule().all[0]
    judging = replace(rule(id="INT900"), all=(replace(first, pattern=replace(first.pattern, kind="suppression")),))
    rules = [rule(), replace(rule(id="MAP005"), mandatory=True), judging]
    comments = [one(GOOD.replace("MAP004", name)) for name in ("MAP004", "MAP005", "INT900", "MAP006")]

    def states(day: date) -> list[str]:
        return [note.state for note in judged(comments, rules, day)]

    assert states(date(2027, 1, 31)) == ["in_force", "forbidden", "forbidden", "unknown"]
    assert states(date(2027, 2, 1)) == ["expired", "forbidden", "forbidden", "unknown"]
    assert judged(comments, rules, date(2027, 1, 1))[3].near in ("MAP004", "MAP005")


def test_there_is_a_limit_and_hostile_texts_are_read_at_once() -> None:
    line = f"# planproof: {GOOD}\n"
    many = line * (MAX_COMMENTS + 1)
    with pytest.raises(InputError, match="a proposal may have 200") as caught:
        read(many + "a: 1\n")
    assert caught.value.place.line == MAX_COMMENTS + 1
    gap = "\n# x\n" * 20_000
    found = read(line * MAX_COMMENTS + gap + "a: [" + "1, " * 20_000 + "]\n")
    assert {comment.suppression.line for comment in found} == {MAX_COMMENTS + 40_001}
    with pytest.raises(InputError, match="double quotes"):
        one('ignore MAP004 reason="' + "\\\\" * 30_000)
