"""What a shell script would start, found by reading it: nothing is ever run.

The script is walked once, in order. Assignments are kept; a condition that the script itself decides is followed; where it
does not, both ways are walked and what they set differently is open, with the reason. A loop is walked once: what it varies is
open, with the values that it takes. Steps and sizes are bounded, so any script ends in bounded time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from .shell_batch import directives, slurm_variables
from .shell_branches import agreed
from .shell_expand import Expander, Scope, Value
from .shell_syntax import Assignment, Node, parse
from .shell_text import NotANumber, Piece, Text, bounded, plain, reason, shown
from .shell_words import ShellError, Word, word_of

MAX_STEPS: Final = 20_000
MAX_NESTED: Final = 12
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"})
_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Started:
    """A command with the words it would be started with. `line` is the script's line that it begins in."""

    words: tuple[Text, ...]
    offset: int
    assignments: Mapping[str, Text] = field(default_factory=dict)
    #: Nothing is started here: words that were found in variables.
    gathered: bool = False


@dataclass(slots=True)
class Walk:
    """What a script does as far as it was read."""

    commands: list[Started] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    #: Name of a file that a here-document is written to -> its text.
    files: dict[str, Text] = field(default_factory=dict)
    #: What was not followed, with its offset.
    notes: list[tuple[str, int]] = field(default_factory=list)
    #: Directives of the batch system, by option: value and offset.
    directives: dict[str, tuple[str, int]] = field(default_factory=dict)


class _Ended(Exception):
    """The script, a function or a loop ends here."""


def walk(text: str, given: Mapping[str, str] | None = None, before: Scope | None = None) -> Walk:
    """Read a script. `given` are variables that its caller sets, `before` what an earlier script left. Raises ShellError."""
    found = Walk(scope=before.copy() if before is not None else Scope())
    found.directives = directives(text)
    for name, (value, offset) in slurm_variables(found.directives).items():
        found.scope.variables[name] = Value((Piece(value, offset),))
    for name, value in (given or {}).items():
        if name.isdigit():
            places = found.scope.positional or []
            while len(places) < int(name):
                places.append((Piece("", 0, f"'${len(places) + 1}' is an argument that the script is called with"),))
            places[int(name) - 1] = (Piece(value, 0),)
            found.scope.positional = places
        else:
            found.scope.variables[name] = Value((Piece(value, 0),))
    reader = _Reader(text, found, lambda offset: offset, frozenset(given or ()))
    with suppress(_Ended):
        reader.run(parse(text))
    return found


class _Reader:
    """Walks the commands of one text; `origin` maps its offsets to those of the script."""

    def __init__(self, text: str, found: Walk, origin: Callable[[int], int], fixed: frozenset[str], nested: int = 0) -> None:
        self.text, self.found, self.origin, self.fixed, self.nested = text, found, origin, fixed, nested
        self.steps = [0]

    @property
    def scope(self) -> Scope:
        return self.found.scope

    @property
    def expander(self) -> Expander:
        return Expander(self.text, self.scope, self.origin)

    def line(self, offset: int) -> str:
        """Where something stands, in words; the caller turns the mark into a line."""
        return f"@{self.origin(offset)}@"

    def note(self, text: str, node: Node) -> None:
        """Tell something of a place, once however often it is passed."""
        note = (text, self.origin(node.offset))
        if note not in self.found.notes:
            self.found.notes.append(note)

    def run(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self.steps[0] += 1
            if self.steps[0] > MAX_STEPS:
                raise ShellError(f"the script takes more than {MAX_STEPS:,} steps", self.origin(node.offset))
            self.one(node)

    def one(self, node: Node) -> bool | None:
        """Walk a command; whether it succeeds, where that is known."""
        for heredoc in node.heredocs:
            self.heredoc(node, heredoc.offset, heredoc.text, heredoc.expanded)
        match node.kind:
            case "simple":
                return self.simple(node)
            case "sequence":
                self.run(node.body)
            case "subshell":
                kept = self.scope.copy()
                with suppress(_Ended):
                    self.run(node.body)
                self.found.scope = kept
            case "test":
                return self.test([*map(self.tested, node.words)])
            case "arithmetic":
                return self.arithmetic(node)
            case "and" | "or":
                return self.and_or(node)
            case "if":
                self.if_(node)
            case "case":
                self.case(node)
            case "for":
                self.for_(node)
            case "while":
                self.while_(node)
            case "function":
                self.scope.functions[node.name] = (node.body, self.text)
        return None

    def heredoc(self, node: Node, offset: int, raw: str, expanded: bool) -> None:
        text: Text = (Piece(raw, self.origin(offset)),)
        if expanded:
            text = self.expander.joined(word_of(self.text, offset, offset + len(raw)))
        words = [word.literal for word in node.words]
        targets = [word for operator, word in node.redirects if operator in (">", ">>", ">|")]
        if words[:1] == ["tee"]:
            targets += [word for word in node.words[1:] if not (word.literal or "").startswith("-")]
        for target in targets:
            self.found.files[shown(self.expander.joined(target))] = text

    # ── simple commands ──

    def simple(self, node: Node) -> bool | None:
        if node.name == "!":
            outcome = self.one(node.body[0])
            return None if outcome is None else not outcome
        words = self.expander.fields(node.words)
        name = shown(words[0]) if words else ""
        if not words or name in ("export", "local", "declare", "readonly", "typeset"):
            for assignment in node.assignments:
                self.assign(assignment)
                if name == "export":
                    self.scope.exported.add(assignment.name)
            if name == "export":
                self.scope.exported |= {shown(word) for word in words[1:]}
            return True
        match name:
            case "true" | ":":
                return True
            case "false":
                return False
            case "[" | "test":
                return self.test(words[1:-1] if name == "[" else words[1:])
            case "exit" | "return" | "break" | "continue" | "exec" if name != "exec":
                raise _Ended
            case "unset":
                for word in words[1:]:
                    self.scope.variables.pop(shown(word), None)
            case "set":
                if len(words) > 1 and shown(words[1]) == "--":
                    self.scope.positional = list(words[2:])
            case "shift":
                if self.scope.positional:
                    self.scope.positional = self.scope.positional[1:]
            case "read" | "mapfile" | "readarray":
                for word in words[1:]:
                    if re.fullmatch(r"[A-Za-z_]\w*", shown(word)):
                        why = f"'{name}' fills it where the script runs"
                        self.scope.variables[shown(word)] = Value((Piece(f"${shown(word)}", self.origin(node.offset), why),))
            case "let":
                for word in words[1:]:
                    self.let(shown(word), node.offset)
            case "source" | ".":
                file = shown(words[1]) if len(words) > 1 else ""
                self.note(f"'{file[:80]}' is taken in by the script and was not read", node)
            case "eval":
                self.inner(tuple(piece for word in words[1:] for piece in (*word, Piece(" ", self.origin(node.offset)))), node)
            case _ if name in self.scope.functions:
                self.call(name, words[1:], node)
            case "echo" | "printf" | "mkdir" | "cd" | "rm" | "cp" | "ls":
                pass
            case _:
                self.start(words, node)
        return None

    def start(self, words: list[Text], node: Node) -> None:
        """A command of its own; one that hands a string to a shell is read inside."""
        for k, word in enumerate(words[:-1]):
            handed = shown(words[k + 1])
            if shown(word) in _SHELLS and re.fullmatch(r"-[a-z]*c[a-z]*", handed) and k + 2 < len(words):
                self.commands_before(words[:k], node)
                self.inner(words[k + 2], node)
                return
        for word in words:
            if shown(word).startswith("--wrap="):
                self.inner(_cut(word, len("--wrap=")), node)
                return
        prefix = {one.name: self.expander.joined(one.value) for one in node.assignments if isinstance(one.value, Word)}
        self.found.commands.append(Started(tuple(words), self.origin(node.offset), prefix))

    def commands_before(self, words: list[Text], node: Node) -> None:
        if words:
            self.found.commands.append(Started(tuple(words), self.origin(node.offset)))

    def inner(self, text: Text, node: Node) -> None:
        """A string that a shell would read."""
        if self.nested >= MAX_NESTED:
            self.note("strings of commands are nested too deep to be read", node)
            return
        parts: list[str] = []
        starts: list[int] = []
        offsets: list[int] = []
        size = 0
        for piece in text:
            shown_here = piece.text
            if piece.why is not None:
                name = f"__open_{self.nested}_{len(self.scope.variables)}"
                self.scope.variables[name] = Value((piece,))
                shown_here = "${" + name + "}"
            starts.append(size)
            offsets.append(piece.offset)
            parts.append(shown_here)
            size += len(shown_here)
        whole = "".join(parts)

        def origin(offset: int) -> int:
            k = max(0, bisect_right(starts, offset) - 1)
            if not starts:
                return self.origin(node.offset)
            return offsets[k] + min(offset - starts[k], max(0, len(text[k].text) - 1))

        try:
            nodes = parse(whole)
        except ShellError:
            self.note("a string that is handed to a shell was not understood", node)
            return
        reader = _Reader(whole, self.found, origin, self.fixed, self.nested + 1)
        reader.steps = self.steps
        with suppress(_Ended):
            reader.run(nodes)

    def call(self, name: str, words: list[Text], node: Node) -> None:
        if self.nested >= MAX_NESTED:
            self.note(f"'{name}' calls itself too deep to be read", node)
            return
        body, text = self.scope.functions[name]
        kept, self.scope.positional = self.scope.positional, list(words)
        # A function of this same text keeps its offsets; one defined in a string that was read inside has lost them.
        origin = self.origin if text is self.text else (lambda _: self.origin(node.offset))
        reader = _Reader(text, self.found, origin, self.fixed, self.nested + 1)
        reader.steps = self.steps
        assert isinstance(body, tuple)
        with suppress(_Ended):
            reader.run(body)
        self.scope.positional = kept

    # ── assignments ──

    def assign(self, one: Assignment) -> None:
        if one.name in self.fixed and not one.append:
            return
        known = self.scope.variables.get(one.name)
        if isinstance(one.value, tuple):
            items: dict[str, Text] = {}
            if one.append and known is not None:
                items = dict(known.items) if known.items is not None else {"0": known.text}
            for word in one.value:
                literal = re.match(r"\[([^\]]+)\]=", word.literal or shown(self.expander.joined(word)))
                if literal:
                    items[literal[1].strip("\"'")] = _cut(self.expander.joined(word), literal.end())
                    continue
                for field_ in self.expander.word_fields(word):
                    items[str(len(items))] = field_
            self.scope.variables[one.name] = Value((), items)
            return
        value = self.expander.joined(one.value)
        if one.key is not None:
            items = dict(known.items) if known is not None and known.items is not None else {}
            items[one.key.strip("\"'")] = value
            self.scope.variables[one.name] = Value((), items)
        elif one.append and known is not None and known.items is not None:
            known.items["0"] = bounded((*known.items.get("0", ()), *value))
        elif one.append and known is not None:
            self.scope.variables[one.name] = Value(bounded((*known.text, *value)))
        else:
            self.scope.variables[one.name] = Value(value or (Piece("", self.origin(one.offset)),))

    def arithmetic(self, node: Node) -> bool | None:
        self.let(node.name, node.offset)
        try:
            return self.expander.number(node.name) != 0
        except NotANumber:
            return None

    def let(self, expression: str, offset: int) -> None:
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=(?!=)(.*)", expression, re.DOTALL)
        if match is None:
            return
        whole = f"{match[1]} {match[2]} ({match[3]})" if match[2] else match[3]
        try:
            value: Text = (Piece(str(self.expander.number(whole)), self.origin(offset)),)
        except NotANumber as error:
            value = (Piece(match[3].strip()[:60], self.origin(offset), str(error)),)
        self.scope.variables[match[1]] = Value(value)

    # ── conditions ──

    def tested(self, word: Word) -> Text:
        return self.expander.joined(word)

    def test(self, words: list[Text]) -> bool | None:
        """`[ ... ]`: True, False, or None where the script alone does not decide."""
        for operator, stop in (("||", True), ("-o", True), ("&&", False), ("-a", False)):
            at = next((k for k, word in enumerate(words) if shown(word) == operator and 0 < k < len(words) - 1), None)
            if at is not None:
                left, right = self.test(words[:at]), self.test(words[at + 1 :])
                if stop in (left, right):
                    return stop
                return None if None in (left, right) else not stop
        if words and shown(words[0]) == "!":
            outcome = self.test(words[1:])
            return None if outcome is None else not outcome
        if len(words) > 2 and shown(words[0]) == "(" and shown(words[-1]) == ")":
            return self.test(words[1:-1])
        texts = [plain(word) for word in words]
        if len(words) == 1:
            return None if texts[0] is None else texts[0] != ""
        if len(words) == 2 and texts[0] in ("-z", "-n"):
            if texts[1] is None:
                return None
            return (texts[1] == "") == (texts[0] == "-z")
        if len(words) != 3 or None in texts:
            return None
        left_text, operator_text, right_text = (text or "" for text in texts)
        if operator_text in ("=", "=="):
            return _matches(left_text, right_text)
        if operator_text == "!=":
            outcome = _matches(left_text, right_text)
            return None if outcome is None else not outcome
        if operator_text in _COMPARED:
            try:
                return _COMPARED[operator_text](self.expander.number(left_text), self.expander.number(right_text))
            except NotANumber:
                return None
        return None

    def and_or(self, node: Node) -> bool | None:
        left = self.one(node.body[0])
        wanted = node.kind == "and"
        if left is None:
            self.undecided(node, [(node.body[1],)])
            return None
        return self.one(node.body[1]) if left is wanted else left

    def undecided(self, node: Node, bodies: list[tuple[Node, ...]], *, one_must: bool = False) -> None:
        """Walk bodies of which at most one runs, and keep what they agree on. A body that ends the script is not followed."""
        start = self.scope
        ends: list[Scope] = [] if one_must else [start]
        for body in bodies:
            self.found.scope = start.copy()
            try:
                self.run(body)
                ends.append(self.found.scope)
            except _Ended:
                continue
        if not ends:
            self.found.scope = start
            raise _Ended
        self.found.scope = agreed(ends, f"the condition at {self.line(node.offset)} is not decided by the script")

    def if_(self, node: Node) -> None:
        left: list[tuple[Node, ...]] = []
        for condition, body in node.branches:
            outcome: bool | None = True
            if condition is not None:
                outcome = None
                for part in condition:
                    assert isinstance(part, Node)
                    outcome = self.one(part)
            if outcome is False:
                continue
            left.append(body)
            if outcome is True:
                break
        else:
            if left:
                self.undecided(node, left)
            return
        if len(left) == 1:
            self.run(left[0])
        else:
            self.undecided(node, left, one_must=True)

    def case(self, node: Node) -> None:
        subject = self.expander.joined(node.words[0])
        known = plain(subject)
        bodies = []
        for patterns, body in node.branches:
            texts = [shown(self.expander.joined(word)) for word in patterns or () if isinstance(word, Word)]
            if known is None:
                bodies.append(body)
            elif any(_pattern(known, text) for text in texts):
                self.run(body)
                return
        if bodies:
            self.undecided(node, bodies, one_must=any(_pattern("", shown(self.expander.joined(word)))
                for word in node.branches[-1][0] or () if isinstance(word, Word)))  # fmt: skip

    # ── loops ──

    def for_(self, node: Node) -> None:
        items = self.expander.fields(node.words)
        if len(items) == 1 and reason(items[0]) is None:
            self.scope.variables[node.name] = Value(items[0])
        else:
            takes = ", ".join(shown(item) for item in items[:8]) + (", ..." if len(items) > 8 else "")
            why = f"'{node.name}' takes {takes or 'values'} in the loop at {self.line(node.offset)}"
            if node.name not in self.fixed:
                self.scope.variables[node.name] = Value((Piece(f"${node.name}", self.origin(node.offset), why),))
        with suppress(_Ended):
            self.run(node.body)

    def while_(self, node: Node) -> None:
        """A loop is walked once for what it starts; what it sets does not count, for it may not run at all."""
        condition, body = node.branches[0]
        outcome: bool | None = None
        for part in condition or ():
            if isinstance(part, Node):
                outcome = self.one(part)
        if outcome is False:
            return
        kept = self.scope.copy()
        with suppress(_Ended):
            self.run(body)
        if outcome is None:
            self.found.scope = kept


def _cut(text: Text, start: int) -> Text:
    from .shell_text import sliced

    return sliced(text, start, None)


def _matches(left: str, right: str) -> bool | None:
    if any(char in right for char in "*?["):
        return _pattern(left, right)
    return left == right


def _pattern(text: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return len(pattern) < 200 and len(text) < 2000 and fnmatchcase(text, pattern)
