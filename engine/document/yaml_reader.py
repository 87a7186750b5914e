"""YAML text to a tree, from the parser's events (libyaml where present, else pure Python), never from a constructor.

Events, not composed nodes: the composer recurses in C, so depth could not be judged before it. Refused:
tags, merge keys (taken in other people's files alone), keys that are not text, recursive or repeated anchors, a second document.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from ..errors import InputError, Place
from .limits import MAX_DEPTH
from .pointers import join_pointer
from .scalars import NumberError, resolve_plain
from .source import Source, empty, quoted
from .tree import Anchored, TreeBuilder

Span = tuple[int, int]

_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# What the parsers say (a part of it), and what to do about it.
_REMEDIES: Final = (
    (
        "mapping values are not allowed",
        "Quote the text if it holds ': ', or align this line with the keys it belongs to.",
    ),
    ("could not find expected ':'", "Write 'key: value' with a colon and a space, or indent the line under its text."),
    ("did not find expected key", "Align this line with the keys of the same mapping; check quotes above it."),
    ("did not find expected '-'", "Align this line with the '-' of its list, or with the key above."),
    ("expected <block end>", "Align this line with the lines it belongs to; check quotes above it."),
    ("unknown escape", "Use single quotes, in which a backslash is a plain character, or double the backslash."),
    ("Unicode character escape", "Write the character itself, or one escape for the whole code point (\\U0001F600)."),
    ("quoted scalar", "Close the quotes, and double a quote that is part of a single-quoted text."),
    ("cannot start any token", "Quote a text that begins with one of @ ` % or a tab."),
    ("',' or ']'", "Close the list with ']' and separate its values with ','."),
    ("',' or '}'", "Close the mapping with '}' and separate its keys with ','."),
)


def read_yaml(source: Source, *, last_wins: bool = False) -> tuple[TreeBuilder, tuple[Span, ...]]:
    """The tree of a YAML text, and the spans of those scalars that hold a '#' (which begins no comment there)."""
    builder = TreeBuilder(source, last_wins=last_wins)
    spans: list[Span] = []
    separator = next((c for c in "\u2028\u2029" if c in source.text), None)
    if separator is not None:
        # YAML 1.1 parsers break lines at these, YAML 1.2 ones and editors do not.
        raise InputError(
            f"The file holds U+{ord(separator):04X}, which some YAML readers take for a line end and others do not.",
            code="input.control_character",
            place=source.place(source.text.index(separator)),
            remedy=f'Replace it by a line end, or write it as "\\u{ord(separator):04x}" in double quotes.',
        )
    parser: Any = None
    try:
        parser = _PARSER(source.text)
        _take_events(parser, builder, spans)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, builder) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The pure-Python scanner lets chr() refuse an escape beyond Unicode.
        reached = min(parser.get_mark().index, len(source.text)) if hasattr(parser, "get_mark") else 0
        raise InputError(
            f"This is not YAML: {quoted(str(error), 200)}.",
            code="input.syntax",
            place=source.place(reached),
            remedy="Check the escapes here, and save the document as plain YAML 1.2.",
        ) from None
    finally:
        if parser is not None:
            parser.dispose()
    if builder.root is None:
        raise empty(source.name)
    return builder, tuple(spans)


def _take_events(parser: Any, builder: TreeBuilder, spans: list[Span]) -> None:
    get_event = parser.get_event
    stack = builder.stack
    scalar_event, mapping_start, mapping_end = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.MappingEndEvent
    sequence_start, sequence_end, alias_event = yaml.SequenceStartEvent, yaml.SequenceEndEvent, yaml.AliasEvent
    document_start = yaml.DocumentStartEvent
    anchors: dict[str, tuple[int, Anchored | None]] = {}
    open_anchors: list[str | None] = []
    documents = 0
    while (event := get_event()) is not None:
        kind = type(event)
        if kind is scalar_event:
            offset = event.start_mark.index
            if event.tag is not None or event.anchor is not None:
                _demand_no_tag(event, builder)
            value = event.value
            if "#" in value:
                spans.append((_content(event, builder.source), event.end_mark.index))
            plain = event.implicit[0]
            # `builder.wants_key`, written out: this is asked for every scalar of every document.
            if stack and stack[-1].key is None and type(stack[-1].data) is dict:
                _take_key(value, plain, offset, event.anchor, builder)
                continue
            if not builder.stack and plain and value in ("", "~", "null"):
                raise empty(builder.source.name)
            builder.text(value, offset)
            data: object = value
            if plain:
                try:
                    data = resolve_plain(value)
                except NumberError as error:
                    raise _number_error(error, offset, builder) from None
            if event.anchor is not None:
                _declare(event, builder, anchors, Anchored(data, None, 1, len(value), 0))
            builder.scalar(data, offset)
        elif kind is mapping_start or kind is sequence_start:
            _demand_no_tag(event, builder)
            offset = event.start_mark.index
            if builder.wants_key:
                raise _bad_key("a mapping" if kind is mapping_start else "a list", offset, builder)
            if event.anchor is not None:
                _declare(event, builder, anchors, None)
            open_anchors.append(event.anchor)
            builder.open({} if kind is mapping_start else [], offset)
        elif kind is mapping_end or kind is sequence_end:
            anchored = builder.close()
            anchor = open_anchors.pop()
            if anchor is not None:
                anchors[anchor] = (anchors[anchor][0], anchored)
        elif kind is alias_event:
            offset = event.start_mark.index
            if builder.wants_key:
                raise _bad_key(f"the alias '*{event.anchor}'", offset, builder)
            builder.alias(_target(event, builder, anchors), offset, event.anchor)
        elif kind is document_start:
            documents += 1
            if documents > 1:
                raise InputError(
                    "A second document begins here; a file holds one.",
                    code="input.several_documents",
                    place=builder.source.place(event.start_mark.index),
                    remedy="Remove the '---', or put the second document in a file of its own.",
                )


def _take_key(text: str, plain: bool, offset: int, anchor: str | None, builder: TreeBuilder) -> None:
    if plain:
        if text == "<<" and builder.last_wins and anchor is None:
            builder.merge_key(offset)
            return
        if text == "<<":
            raise InputError(
                "The merge key '<<' is not part of YAML 1.2 and is refused.",
                code="input.merge_key",
                place=builder.source.place(offset, builder.pointer() + "/<<"),
                remedy="Write the merged keys out in this mapping.",
            )
        try:
            is_text = isinstance(resolve_plain(text), str)
        except NumberError:
            is_text = False
        if not is_text:
            raise _bad_key(quoted(text) if text else "empty", offset, builder, text)
    if anchor is not None:
        raise InputError(
            f"The key {quoted(text)} carries the anchor '&{anchor}'; keys carry none.",
            code="input.key",
            place=builder.source.place(offset, builder.pointer() + join_pointer((text,))),
            remedy="Put the anchor before the value, or remove it.",
        )
    builder.key(text, offset)


def _content(event: Any, source: Source) -> int:
    """Where a scalar's text begins: after the header of a block scalar, whose line may end in a comment."""
    start: int = event.start_mark.index
    if event.style in ("|", ">"):
        start += len(source.line(event.start_mark.line + 1)) - event.start_mark.column
    return start


def _bad_key(found: str, offset: int, builder: TreeBuilder, text: str | None = None) -> InputError:
    remedy = f'Quote it: "{text}".' if text else "Write a text before the ':'."
    return InputError(
        f"A key must be a text; this one is {found}.",
        code="input.key",
        place=builder.source.place(offset, builder.pointer()),
        remedy=remedy,
    )


def _demand_no_tag(event: Any, builder: TreeBuilder) -> None:
    if event.tag is not None:
        raise InputError(
            f"The tag {quoted(event.tag)} is refused: a value's type follows from how it is written.",
            code="input.tag",
            place=builder.place(event.start_mark.index),
            remedy="Remove the tag; put quotes around what shall be a text.",
        )


def _declare(
    event: Any, builder: TreeBuilder, anchors: dict[str, tuple[int, Anchored | None]], value: Anchored | None
) -> None:
    if event.anchor in anchors:
        first = builder.source.place(anchors[event.anchor][0])
        raise InputError(
            f"The anchor '&{event.anchor}' was given before, at line {first.line}, column {first.column}.",
            code="input.alias",
            place=builder.source.place(event.start_mark.index),
            remedy="Give each anchor a name of its own.",
        )
    anchors[event.anchor] = (event.start_mark.index, value)


def _target(event: Any, builder: TreeBuilder, anchors: dict[str, tuple[int, Anchored | None]]) -> Anchored:
    place = builder.place(event.start_mark.index)
    if event.anchor not in anchors:
        known = ", ".join(f"'&{name}'" for name in sorted(anchors)[:10]) or "none"
        raise InputError(
            f"The alias '*{event.anchor}' refers to no anchor before it; those are: {known}.",
            code="input.alias",
            place=place,
            remedy=f"Define '&{event.anchor}' above, or quote the text if it merely begins with '*'.",
        )
    offset, anchored = anchors[event.anchor]
    if anchored is None:
        raise InputError(
            f"The alias '*{event.anchor}' stands inside the value it refers to (line "
            f"{builder.source.place(offset).line}): that value would never end.",
            code="input.alias",
            place=place,
            remedy="Write the value out.",
        )
    return anchored


def _number_error(error: NumberError, offset: int, builder: TreeBuilder) -> InputError:
    return InputError(
        f"{error}.",
        code="input.number",
        place=builder.place(offset),
        remedy="Write a finite number of ordinary size, or quote it if it is a text.",
    )


def _syntax_error(error: yaml.MarkedYAMLError, builder: TreeBuilder) -> InputError:
    source = builder.source
    mark = error.problem_mark or error.context_mark
    offset = min(mark.index, len(source.text)) if mark is not None else 0
    place = source.place(offset)
    line = source.line(place.line or 1)
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    if "\t" in indentation:
        return InputError(
            "A tab stands in the indentation of this line; YAML indents with spaces only.",
            code="input.tab",
            place=Place(source.name, place.line, indentation.index("\t") + 1),
            remedy="Replace the tab by spaces.",
        )
    if "maximum nesting depth" in (error.problem or ""):
        return InputError(
            f"Brackets are nested far deeper here than the limit of {MAX_DEPTH}.",
            code="input.too_deep",
            place=place,
            remedy="No document of this kind nests so deep; check the brackets.",
        )
    said = f"{error.context or ''} {error.problem or ''}"
    since = ""
    if error.context and error.context_mark is not None and error.context_mark.line + 1 != place.line:
        since = f" ({error.context} that begins at line {error.context_mark.line + 1})"
    elif error.context:
        since = f" ({error.context})"
    return InputError(
        f"This is not YAML: {error.problem or error.context}{since}.",
        code="input.syntax",
        place=place,
        remedy=next(
            (remedy for part, remedy in _REMEDIES if part in said), "Check the indentation and the quotes here."
        ),
    )
