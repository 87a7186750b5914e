"""Text from proposals made harmless for the format it goes to: terminals, Markdown, YAML front matter.

What a stranger wrote must show as text and do nothing: no control sequence, no reversed reading, no markup, no second
row in a table. Escapes are visible, so that a reader sees what is there. This module knows no format's layout.
"""

from __future__ import annotations

import re
from typing import Final

#: Characters that Markdown (CommonMark with tables, strikethrough and mathematics) acts on anywhere in a line.
_ANYWHERE: Final = re.compile(r"[\\`*\[\]|~$#]")
#: An underscore between two letters or digits opens nothing; any other does.
_UNDERSCORE: Final = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
#: What GitHub makes a link or a mention of in running text: names after @, web addresses, issue numbers.
_LIVE: Final = re.compile(
    r"@(?=\w)|(?<=https:)(?=//)|(?<=http:)(?=//)|(?<=ftp:)(?=//)|(?<=www)(?=\.)|(?<=GH-)(?=\d)|(?<=#)(?=\d)", re.IGNORECASE
)
#: A space of no width between the two parts of it: nothing shows, and nothing is live.
_APART: Final = "&#8203;"
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
#: What begins a list, a quotation, a ruler or an underlined heading at the start of a line.
_AT_START: Final = re.compile(r"[-+=>:]|\d{1,9}(?=[.)](?:\s|$))")
_SPACE: Final = re.compile(r"\s+")
_TICKS: Final = re.compile(r"`+")


def visible(text: str) -> str:
    """`text` on one line: white space as single spaces, and every other character that does not print as its escape.

    That takes in control and escape characters, bidirectional marks and overrides, zero-width characters, and half
    surrogates.
    """
    return _printable(_SPACE.sub(" ", text).strip())


def terminal(text: str) -> str:
    """`text` for a terminal, line by line: nothing in it moves the cursor, changes colours or reverses the reading."""
    return "\n".join(_printable(line.replace("\t", "    ")) for line in text.split("\n"))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markdown(text: str, *, live: bool = False) -> str:
    """`text` as a run of Markdown that shows it literally: in a paragraph, a list item, a heading, a table's cell.

    Addresses, @names and issue numbers do nothing on GitHub either, unless they are `live`, as in pages of our own.
    """
    shown = _ANYWHERE.sub(lambda match: "\\" + match[0], visible(text))
    shown = _UNDERSCORE.sub(r"\\_", shown)
    shown = _ENTITY.sub("&amp;", shown).replace("<", "&lt;")
    if not live:
        shown = _LIVE.sub(lambda match: match[0] + _APART, shown)
    start = _AT_START.match(shown)
    if start is None:
        return shown
    if start[0].isdigit():
        return f"{start[0]}\\{shown[start.end() :]}"
    return "\\" + shown


def code(text: str) -> str:
    """`text` as a Markdown code span; in a table's cell too. White space at its ends is not kept."""
    shown = visible(text)
    if "|" in shown or not shown:
        # A bar ends a cell even inside a code span, and an escape would show there.
        return markdown(text)
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def fence_for(text: str) -> str:
    """A fence for a code block that nothing in `text` can close."""
    return "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))


def yaml_text(text: str) -> str:
    """`text` as a double-quoted YAML scalar on one line; nothing in it looks like a comment of Markdown or HTML."""
    parts = ['"']
    for char in text:
        if char in '"\\':
            parts.append("\\" + char)
        elif char == "\n":
            parts.append("\\n")
        elif char in "<`":
            parts.append(f"\\x{ord(char):02x}")
        else:
            parts.append(char if char.isprintable() else _escape(char))
    return "".join(parts) + '"'


def clipped(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, with an ellipsis where there is more."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."
