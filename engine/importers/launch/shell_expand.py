"""What words of a shell script expand to: parameters with their operators, arithmetic, and the few substitutions that are pure.

No command is run. `$(...)` is open, but for `echo` and `expr` over known words, which compute nothing but text. Variables
that the script does not set are open: their values come from whoever starts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from .shell_syntax import parse
from .shell_text import NotANumber, Piece, Text, arithmetic, bounded, plain, reason, shown, sliced, split
from .shell_words import Segment, ShellError, Word, word_of

_PARAMETER: Final = re.compile(
    r"(?P<mark>[!#]?)(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[(?P<key>[^\]]*)\])?(?P<rest>.*)", re.DOTALL
)
MAX_FIELDS: Final = 20_000
#: Paths, dates and names of machines: nothing that a plan depends on.
_SEEN_ONLY_AT_RUN: Final = "what '{}' gives is only known where the script runs"


@dataclass(slots=True)
class Value:
    """A variable: a text, or an array of texts by key."""

    text: Text = ()
    items: dict[str, Text] | None = None

    def copy(self) -> Value:
        """The same value, to be changed on its own."""
        return Value(self.text, None if self.items is None else dict(self.items))

    @property
    def scalar(self) -> Text:
        """What `$name` means: of an array, its item 0."""
        return self.text if self.items is None else self.items.get("0", ())


@dataclass(slots=True)
class Scope:
    """The variables of a script, the arguments that it was given, and the names of what it hands to its children."""

    variables: dict[str, Value] = field(default_factory=dict)
    positional: list[Text] | None = None
    exported: set[str] = field(default_factory=set)
    functions: dict[str, tuple[object, str]] = field(default_factory=dict)

    def copy(self) -> Scope:
        """The same scope, to be changed on its own."""
        known = {name: value.copy() for name, value in self.variables.items()}
        return Scope(known, None if self.positional is None else list(self.positional), set(self.exported), dict(self.functions))


class Expander:
    """Expands words of one text (the script, or a string in it that is parsed on its own) in a scope."""

    def __init__(self, text: str, scope: Scope, origin: Callable[[int], int]) -> None:
        self.text = text
        self.scope = scope
        self.origin = origin
        self.depth = 0

    def fields(self, words: tuple[Word, ...]) -> list[Text]:
        """The words that these words expand to, unquoted parts split."""
        found: list[Text] = []
        for word in words:
            found += self.word_fields(word)
            if len(found) > MAX_FIELDS:
                raise ShellError(f"words expand to more than {MAX_FIELDS:,}", word.offset)
        return found

    def word_fields(self, word: Word) -> list[Text]:
        """The fields of one word."""
        found: list[Text] = []
        current: list[Piece] = []
        quoted_any = False
        for segment in word.segments:
            quoted_any = quoted_any or segment.quoted
            if segment.kind == "text":
                if segment.text:
                    current.append(Piece(segment.text, self.origin(segment.offset)))
                continue
            several = self.several(segment)
            if several is not None:
                parts = several if segment.quoted else [part for one in several for part in split(one)]
                for k, part in enumerate(parts):
                    if k:
                        found.append(tuple(current))
                        current = []
                    current += part
                continue
            value = self.value(segment)
            if segment.quoted:
                current += value
                continue
            whole = shown(value)
            parts = split(value)
            if whole[:1].isspace() and current:
                found.append(tuple(current))
                current = []
            for k, part in enumerate(parts):
                if k:
                    found.append(tuple(current))
                    current = []
                current += part
            if whole[-1:].isspace() and current:
                found.append(tuple(current))
                current = []
        if current or quoted_any:
            found.append(bounded(tuple(current)))
        return found

    def joined(self, word: Word) -> Text:
        """A word as one text, as in an assignment: nothing is split."""
        pieces: list[Piece] = []
        for segment in word.segments:
            if segment.kind == "text":
                if segment.text:
                    pieces.append(Piece(segment.text, self.origin(segment.offset)))
                continue
            several = self.several(segment)
            if several is not None:
                for k, part in enumerate(several):
                    pieces += ([Piece(" ", self.origin(segment.offset))] if k else []) + list(part)
            else:
                pieces += self.value(segment)
        return bounded(tuple(pieces)) if pieces else ()

    def several(self, segment: Segment) -> list[Text] | None:
        """The items of `${name[@]}` or `$@`; None for what is one text."""
        if segment.kind != "parameter":
            return None
        match = _PARAMETER.fullmatch(segment.text)
        if match is None or match["mark"] or match["rest"]:
            return None
        if match["key"] in ("@", "*"):
            value = self.scope.variables.get(match["name"])
            if value is None:
                return []
            return list(value.items.values()) if value.items is not None else [value.text]
        if match["name"] in ("@", "*") and match["key"] is None:
            if self.scope.positional is None:
                return [(Piece("", self.origin(segment.offset), "'$@' is what the script is called with"),)]
            return list(self.scope.positional)
        return None

    # ── one text ──

    def value(self, segment: Segment) -> Text:
        """What one segment expands to."""
        self.depth += 1
        try:
            if self.depth > 30:
                return self.open(segment, "it is nested too deep")
            if segment.kind == "arithmetic":
                return self.arithmetic(segment)
            if segment.kind == "command":
                return self.command(segment)
            return self.parameter(segment)
        finally:
            self.depth -= 1

    def open(self, segment: Segment, why: str) -> Text:
        """A text that is not decided here."""
        mark = {"parameter": "${%s}", "arithmetic": "$((%s))", "command": "$(%s)"}.get(segment.kind, "%s")
        # One word whatever it holds: what it will be parted into is not known.
        words = segment.text.split()
        text = words[0][:60] + "..." if len(words) > 1 else segment.text.strip()[:60]
        return (Piece(mark % text, self.origin(segment.offset), why),)

    def arithmetic(self, segment: Segment) -> Text:
        """`$(( ... ))`."""
        try:
            return (Piece(str(self.number(segment.text)), self.origin(segment.offset)),)
        except NotANumber as error:
            return self.open(segment, str(error))

    def number(self, expression: str) -> int:
        """An expression over whole numbers, variables with or without `$`. Raises NotANumber."""
        if "$" in expression or "`" in expression:
            # Expanded where it stands, so that the variables keep their values; offsets do not matter in a number.
            text = Expander(expression, self.scope, lambda _: 0).joined(word_of(expression, 0, len(expression)))
            known = plain(text)
            if known is None:
                raise NotANumber(reason(text) or "a part of it is not known")
            expression = known

        def lookup(name: str) -> int:
            value = self.scope.variables.get(name)
            if value is None:
                raise NotANumber(f"'{name}' is not set in the script")
            known = plain(value.scalar)
            if known is None:
                raise NotANumber(reason(value.scalar) or f"'{name}' is not known")
            match = re.fullmatch(r"\s*([-+]?\d{1,19})\s*", known)
            if match is None:
                raise NotANumber(f"'{name}' is '{known[:40]}', no whole number")
            return int(match[1])

        return arithmetic(expression.replace('"', ""), lookup)

    def command(self, segment: Segment) -> Text:
        """`$( ... )`: `echo` and `expr` over known words; all else is open."""
        closed = self.open(segment, _SEEN_ONLY_AT_RUN.format(segment.text.strip()[:40]))
        try:
            nodes = parse(segment.text)
        except ShellError:
            return closed
        if len(nodes) != 1:
            return closed
        node = nodes[0]
        through_bc = node.kind == "sequence" and len(node.body) == 2 and [w.literal for w in node.body[1].words] == ["bc"]
        first = node.body[0] if through_bc else node
        if first.kind != "simple" or first.assignments or first.redirects or not first.words:
            return closed
        inside = Expander(segment.text, self.scope, lambda _: self.origin(segment.offset))
        inside.depth = self.depth
        words = inside.fields(first.words)
        name = shown(words[0]) if words else ""
        rest = [word for word in words[1:] if shown(word) not in ("-n", "-e")]
        if name not in ("echo", "expr") or (through_bc and name != "echo"):
            return closed
        why = next((reason(word) for word in rest if reason(word)), None)
        if why is not None:
            return self.open(segment, why)
        text = " ".join(shown(word) for word in rest)
        if name == "echo" and not through_bc:
            return (Piece(text, self.origin(segment.offset)),)
        try:
            return (Piece(str(self.number(text)), self.origin(segment.offset)),)
        except NotANumber as error:
            return self.open(segment, str(error))

    def parameter(self, segment: Segment) -> Text:
        """`$name`, `${name}` and `${name<operator>...}`."""
        match = _PARAMETER.fullmatch(segment.text)
        if match is None:
            return self.open(segment, "it is no parameter that is read here")
        name, key, rest = match["name"], match["key"], match["rest"]
        if match["mark"] == "#" and not rest:
            return self.length(segment, name, key)
        found = self.lookup(segment, name, key)
        if match["mark"] == "!":
            known = plain(found) if found is not None else None
            found = self.lookup(segment, known, None) if known else None
        base = segment.offset + (2 if segment.kind == "parameter" and self.text.startswith("${", segment.offset) else 1)
        if not rest:
            return found if found is not None else self.unset(segment, name)
        return self.operated(segment, name, found, rest, base + match.start("rest"))

    def length(self, segment: Segment, name: str, key: str | None) -> Text:
        """`${#name}` and `${#name[@]}`."""
        value = self.scope.variables.get(name)
        if value is None:
            return self.unset(segment, name)
        if key in ("@", "*"):
            number = len(value.items) if value.items is not None else 1
        else:
            known = plain(value.scalar)
            if known is None:
                return self.open(segment, reason(value.scalar) or "")
            number = len(known)
        return (Piece(str(number), self.origin(segment.offset)),)

    def lookup(self, segment: Segment, name: str, key: str | None) -> Text | None:
        """The value of a variable or argument; None where the script does not set it."""
        if name.isdigit():
            given = self.scope.positional
            if name == "0" or given is None or int(name) > len(given):
                return None
            return given[int(name) - 1]
        if not (name[0].isalpha() or name[0] == "_"):
            if name == "#" and self.scope.positional is not None:
                return (Piece(str(len(self.scope.positional)), self.origin(segment.offset)),)
            return None
        value = self.scope.variables.get(name)
        if value is None:
            return None
        if key is None:
            return value.scalar
        if value.items is None:
            return value.text if key == "0" else None
        if key not in value.items:
            try:
                key = str(self.number(key))
            except NotANumber:
                expanded = Expander(key, self.scope, self.origin).joined(word_of(key, 0, len(key)))
                key = shown(expanded)
        return value.items.get(key)

    def unset(self, segment: Segment, name: str) -> Text:
        """What stands for a parameter that the script does not set."""
        if name.isdigit():
            why = f"'${name}' is an argument that the script is called with"
        elif not (name[0].isalpha() or name[0] == "_"):
            why = f"'${name}' is only known where the script runs"
        else:
            why = f"'{name}' is not set in the script"
        return self.open(segment, why)

    def operated(self, segment: Segment, name: str, found: Text | None, rest: str, start: int) -> Text:
        """A parameter with an operator. `start` is where `rest` stands in this text."""
        empty = found is None or (plain(found) == "")

        def word(skip: int) -> Text:
            return self.joined(word_of(self.text, start + skip, start + len(rest)))

        for operator in (":-", ":=", ":+", ":?", "-", "=", "+", "?"):
            if not rest.startswith(operator):
                continue
            missing = empty if operator[0] == ":" else found is None
            if operator[-1] == "+":
                return () if missing else word(len(operator))
            if not missing and found is not None:
                return found
            if operator[-1] == "?":
                return self.unset(segment, name)
            value = unquoted(word(len(operator)))
            if operator[-1] == "=":
                self.scope.variables[name] = Value(value)
            return value
        if found is None:
            return self.unset(segment, name)
        known = plain(found)
        if known is None:
            return self.open(segment, reason(found) or "a part of it is not known")
        for operator in ("##", "#", "%%", "%"):
            if rest.startswith(operator):
                pattern = shown(word(len(operator)))
                low, high = _trimmed(known, pattern, operator)
                return sliced(found, low, high)
        slice_ = re.fullmatch(r":\s*(-?\d+)(?:\s*:\s*(\d+))?", rest)
        if slice_:
            low = int(slice_[1]) if int(slice_[1]) >= 0 else max(0, len(known) + int(slice_[1]))
            return sliced(found, low, None if slice_[2] is None else low + int(slice_[2]))
        cases: dict[str, Callable[[str], str]] = {
            "^^": str.upper, ",,": str.lower, "^": lambda t: t[:1].upper() + t[1:], ",": lambda t: t[:1].lower() + t[1:],
        }  # fmt: skip
        if rest in cases:
            return (Piece(cases[rest](known), found[0].offset if found else self.origin(segment.offset)),)
        replace = re.fullmatch(r"(//?)((?:\\.|[^/\\])*)(?:/(.*))?", rest, re.DOTALL)
        if replace and not any(char in replace[2] for char in "*?[$"):
            old, new = re.sub(r"\\(.)", r"\1", replace[2]), replace[3] or ""
            if "$" not in new and old:
                changed = known.replace(old, new, -1 if replace[1] == "//" else 1)
                return (Piece(changed, found[0].offset if found else self.origin(segment.offset)),)
        return self.open(segment, "it has an operator that is not read here")


def unquoted(text: Text) -> Text:
    """A default's word without the quotes around the whole of it."""
    whole = shown(text)
    if len(whole) >= 2 and whole[0] == whole[-1] and whole[0] in "\"'":
        return sliced(text, 1, len(whole) - 1)
    return text


def _trimmed(text: str, pattern: str, operator: str) -> tuple[int, int]:
    """The part of `text` that `#`, `##`, `%` or `%%` leave: its begin and end."""
    size = len(text)
    if size > 2000 or len(pattern) > 200:
        return 0, size
    prefix = operator[0] == "#"
    lengths = range(size + 1) if len(operator) == 1 else range(size, -1, -1)
    for length in lengths:
        part = text[:length] if prefix else text[size - length :]
        if fnmatchcase(part, pattern):
            return (length, size) if prefix else (0, size - length)
    return 0, size
