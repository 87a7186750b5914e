"""Suppressions as comments of a proposal: reading them strictly, and judging what each is worth.

    # planproof: ignore RULE reason="..." owner=NAME until=YYYY-MM-DD

The three fields follow in any order, each once, and nothing follows them. A reason is a text in double quotes, in which a
backslash stands before a quote or a backslash; an owner is letters, digits and `. _ - @ / +`. Beside a value the comment
speaks of its line; alone on a line it speaks of the next line that holds a value. `planproof:` at the start of a comment is
kept for this: whatever else follows it is an error. JSON has no comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Final, Literal, NoReturn

from ..document import join_pointer, quoted
from ..errors import InputError, Place
from ..frozen import dataclass
from .reading import near
from .rule import Rule
from .suppression import Suppression

if TYPE_CHECKING:
    from ..document import Document

FORM: Final = '# planproof: ignore RULE reason="..." owner=NAME until=YYYY-MM-DD'
#: The kind of fact that a suppression is; a rule that looks at it cannot be suppressed.
KIND: Final = "suppression"
#: More of them than this is no exception any more.
MAX_COMMENTS: Final = 200
_MARK: Final = re.compile(r"#+[ \t]*planproof:")
_WORD: Final = re.compile(r"[ \t]+([^\s=\"]+)")
_RULE: Final = re.compile(r"[A-Z]{3}[0-9]{3}\Z")
_FIELD: Final = re.compile(r"[ \t]+([A-Za-z_-]+)=")
_REASON: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"(?=[ \t]|\Z)')
_PLAIN: Final = re.compile(r"([^\s\"]*)(?=[ \t]|\Z)")
_OWNER: Final = re.compile(r"[A-Za-z0-9._@/+-]+\Z")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_FIELDS: Final = ("reason", "owner", "until")
State = Literal["in_force", "expired", "unknown", "forbidden"]


@dataclass(frozen=True, slots=True)
class Comment:
    """A suppression as it is written: `suppression.line` is the line that it speaks of, `place` where the comment begins.

    `pointer` is the outermost value that begins in that line; of a comment with no value below it, the whole document.
    """

    suppression: Suppression
    place: Place
    pointer: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A comment and its worth. Only one in force suppresses; `near` is the existing id that is nearest to an unknown one."""

    comment: Comment
    state: State
    near: str | None = None


def read_comments(document: Document) -> tuple[Comment, ...]:
    """The suppressions in a document's comments, in order. Raises InputError, with its column, for one that is malformed."""
    commented = dict(document.comments)
    marked = [(line, text) for line, text in commented.items() if _MARK.match(text)]
    if not marked:
        return ()
    if len(marked) > MAX_COMMENTS:
        line, text = marked[MAX_COMMENTS]
        raise InputError(
            f"This is suppression {MAX_COMMENTS + 1}, and a proposal may have {MAX_COMMENTS}.",
            place=Place(document.name, line, len(document.source_line(line).rstrip()) - len(text) + 1),
            code="input.suppression",
            remedy="Settle findings; what holds for a whole repository belongs into its configuration.",
        )
    pointers, below = _pointers(document), _below(document, commented)
    found = []
    for line, text in marked:
        source = document.source_line(line)
        column = len(source.rstrip()) - len(text) + 1
        alone = not source[: column - 1].strip()
        target = below[line - 1] if alone else line
        rule, fields = _parsed(text, Place(document.name, line, column))
        until = date.fromisoformat(fields["until"])
        silence = Suppression(rule, fields["reason"], fields["owner"], until, line=target)
        found.append(Comment(silence, Place(document.name, line, column), pointers.get(target, "")))
    return tuple(found)


def judged(comments: Iterable[Comment], rules: Iterable[Rule], today: date) -> tuple[Judged, ...]:
    """What each comment is worth on `today` under the rules in force."""
    by_id = {rule.id: rule for rule in rules}
    found = []
    for comment in comments:
        rule = by_id.get(comment.suppression.rule)
        if rule is None:
            import difflib

            nearest = difflib.get_close_matches(comment.suppression.rule, by_id, n=1, cutoff=0.0)
            found.append(Judged(comment, "unknown", nearest[0] if nearest else None))
        elif rule.mandatory or KIND in rule.kinds():
            found.append(Judged(comment, "forbidden"))
        else:
            found.append(Judged(comment, "expired" if comment.suppression.expired(today) else "in_force"))
    return tuple(found)


def _below(document: Document, commented: Mapping[int, str]) -> list[int]:
    """For each line, from 1, the next that holds more than a comment; the line itself where none follows."""
    lines = document.text.splitlines()
    found = list(range(1, len(lines) + 1))
    following = 0
    for number in range(len(lines), 0, -1):
        found[number - 1] = following or number
        source = document.source_line(number).strip()
        if source and source != commented.get(number):
            following = number
    return found


def _pointers(document: Document) -> dict[int, str]:
    """For each line the outermost value whose key begins there, or else, the value itself."""
    keys: dict[int, str] = {}
    values: dict[int, str] = {}
    stack: list[tuple[tuple[str | int, ...], object]] = [((), document.data)]
    while stack:
        tokens, value = stack.pop()
        pointer = join_pointer(tokens)
        for lines, place in ((keys, document.key_place(pointer)), (values, document.place(pointer))):
            line = place.line or 0
            if (lines is keys and not tokens) or place.file != document.name:
                continue
            if line not in lines or len(tokens) < lines[line].count("/"):
                lines[line] = pointer
        if isinstance(value, dict):
            stack += [((*tokens, key), one) for key, one in reversed(value.items())]
        elif isinstance(value, list):
            stack += [((*tokens, k), value[k]) for k in reversed(range(len(value)))]
    return values | keys


def _parsed(text: str, place: Place) -> tuple[str, dict[str, str]]:
    """Rule and fields of a comment. Raises InputError at the character that is wrong."""

    def fail(message: str, position: int) -> NoReturn:
        at = Place(place.file, place.line, (place.column or 1) + position)
        raise InputError(message, place=at, code="input.suppression", remedy=f"Write it as {FORM}.")

    mark = _MARK.match(text)
    position = mark.end() if mark else 0
    word = _WORD.match(text, position)
    if word is None or word[1] != "ignore":
        said = quoted(word[1]) if word else "nothing"
        fail(f"A comment that begins with 'planproof:' says 'ignore'; this one says {said}.", word.start(1) if word else position)
    position = word.end()
    rule = _WORD.match(text, position)
    if rule is None or not _RULE.match(rule[1]):
        said = quoted(rule[1]) if rule else "nothing"
        fail(f"After 'ignore' stands the id of one rule, three letters and three digits; this is {said}.", position + 1)
    position = rule.end()
    fields: dict[str, str] = {}
    while text[position:].strip():
        name = _FIELD.match(text, position)
        start = position + len(text[position:]) - len(text[position:].lstrip())
        if name is None:
            fail(f"Here {quoted(text[start:])} stands where a field is expected: reason, owner or until.", start)
        key, at = name[1], name.start(1)
        if key not in _FIELDS:
            fail(f"A suppression has no field {quoted(key)}{near(key, _FIELDS)}.", at)
        if key in fields:
            fail(f"The field '{key}' stands twice.", at)
        value = (_REASON if key == "reason" else _PLAIN).match(text, name.end())
        if value is None:
            how = "in double quotes" if key == "reason" else "without quotes"
            fail(f"The field '{key}' is written {how}; this is {quoted(text[name.end() :])}.", name.end())
        fields[key], wrong = _field(key, value[1])
        if wrong:
            fail(wrong, name.end())
        position = value.end()
    missing = [f"'{key}'" for key in _FIELDS if key not in fields]
    if missing:
        said = " and ".join(missing) if len(missing) < 3 else "'reason', 'owner' and 'until'"
        fail(f"The suppression of {rule[1]} lacks {said}; all three fields are mandatory.", 0)
    return rule[1], fields


def _field(key: str, value: str) -> tuple[str, str]:
    """A field's value, and what is wrong with it."""
    if key == "reason":
        value = re.sub(r'\\(["\\])', r"\1", value)
        return value, "" if value.strip() else "The reason is empty: say why the finding may stand."
    if key == "owner":
        named = _OWNER.match(value)
        return value, "" if named else f"The owner {quoted(value)} is no name: letters, digits and . _ - @ / + make one."
    try:
        date.fromisoformat(value if _DATE.match(value) else "")
    except ValueError:
        return value, f"The date {quoted(value)} is none: write year, month and day, such as 2027-01-31."
    return value, ""
