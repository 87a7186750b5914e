"""The syntax of bash, as far as launch scripts need it: from text to a tree of commands. Nothing is expanded or run here.

Depth and number of nodes are bounded, and every step moves forward, so any text ends in bounded time. What cannot be
understood is a `ShellError` with its offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from .shell_words import Segment, ShellError, Word, WordReader, unknown_word

MAX_DEPTH: Final = 60
MAX_NODES: Final = 200_000
_BLANK: Final = " \t"
_OPERATORS: Final = ("&&", "||", ";;&", ";;", ";&", "|&", ";", "&", "|", "(", ")", "\n")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n=]*\])?(\+?=)")
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*\([ \t]*\)")
_REDIRECT: Final = re.compile(r"(\d*|&|\{\w+\})(<<<|<<-|<<|>>|>\||>&|<&|<>|>|<)")
_RESERVED: Final = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}", ";;"})
_PLAIN_WORD: Final = re.compile(r"[^\s;&|()<>]+")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name=( ... )` or `name[key]=value`."""

    name: str
    key: str | None
    append: bool
    value: Word | tuple[Word, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A here-document: its text, where that begins, and whether it is expanded."""

    text: str
    offset: int
    expanded: bool


@dataclass(slots=True)
class Node:
    """A command. Which fields count depends on `kind`."""

    kind: Literal["simple", "sequence", "if", "case", "for", "while", "function", "subshell", "and", "or", "test", "arithmetic"]
    offset: int
    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    #: Operator and target of each redirection.
    redirects: tuple[tuple[str, Word], ...] = ()
    heredocs: list[Heredoc] = field(default_factory=list)
    body: tuple[Node, ...] = ()
    #: `if`: (condition, body) pairs, the else with no condition; `case`: (patterns, body).
    branches: tuple[tuple[tuple[Node, ...] | tuple[Word, ...] | None, tuple[Node, ...]], ...] = ()
    name: str = ""


def parse(text: str, start: int = 0, end: int | None = None) -> tuple[Node, ...]:
    """The commands of a script, or of its part from `start` to `end`. Raises ShellError."""
    parser = _Parser(text, start, len(text) if end is None else end)
    found = parser.commands(frozenset())
    if parser.at < parser.end:
        raise ShellError(f"'{parser.peek_word()[:20]}' stands where no command can begin", parser.at)
    return found


class _Parser(WordReader):
    def __init__(self, text: str, start: int, end: int) -> None:
        super().__init__(text, start, end)
        self.depth = 0
        self.nodes = 0
        self.waiting: list[tuple[Node, str, bool, bool]] = []

    # ── white space, operators ──

    def blanks(self) -> None:
        while self.at < self.end:
            char = self.text[self.at]
            if char in _BLANK or char == "\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text.startswith("\\\r\n", self.at):
                self.at += 3
            elif char == "#" and (self.at == 0 or self.text[self.at - 1] in " \t\n\r;()&|"):
                while self.at < self.end and self.text[self.at] != "\n":
                    self.at += 1
            else:
                return

    def operator(self) -> str:
        return next((one for one in _OPERATORS if self.text.startswith(one, self.at) and self.at < self.end), "")

    def newline(self) -> None:
        self.at += 1
        self.take_heredocs()

    def peek_word(self) -> str:
        match = _PLAIN_WORD.match(self.text, self.at, self.end)
        return match[0] if match else self.text[self.at : self.at + 1]

    def separators(self) -> None:
        while True:
            self.blanks()
            if self.at >= self.end:
                return
            if self.text[self.at] == "\n":
                self.newline()
            elif self.operator() in (";", "&"):
                self.at += 1
            else:
                return

    # ── lists of commands ──

    def commands(self, stop: frozenset[str]) -> tuple[Node, ...]:
        found: list[Node] = []
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ShellError(f"commands are nested deeper than {MAX_DEPTH}", self.at)
        while True:
            self.separators()
            if self.at >= self.end:
                self.take_heredocs()
                break
            if self.operator() in (")", ";;", ";&", ";;&") or self.peek_word() in stop:
                break
            found.append(self.and_or())
        self.depth -= 1
        return tuple(found)

    def and_or(self) -> Node:
        left = self.pipeline()
        while True:
            self.blanks()
            operator = self.operator()
            if operator not in ("&&", "||"):
                return left
            offset = self.at
            self.at += 2
            self.skip_newlines()
            kind: Literal["and", "or"] = "and" if operator == "&&" else "or"
            left = self.node(Node(kind, offset, body=(left, self.pipeline())))

    def skip_newlines(self) -> None:
        self.blanks()
        while self.at < self.end and self.text[self.at] == "\n":
            self.newline()
            self.blanks()

    def pipeline(self) -> Node:
        parts = [self.command()]
        while True:
            self.blanks()
            if self.operator() not in ("|", "|&"):
                break
            self.at += len(self.operator())
            self.skip_newlines()
            parts.append(self.command())
        return parts[0] if len(parts) == 1 else self.node(Node("sequence", parts[0].offset, body=tuple(parts)))

    def node(self, node: Node) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ShellError("the script has too many commands", node.offset)
        return node

    def command(self) -> Node:
        self.blanks()
        offset = self.at
        word = self.peek_word()
        if self.text.startswith("((", self.at):
            inner = self.balanced(self.at + 2, "((", "))")
            return self.node(Node("arithmetic", offset, name=inner))
        if self.operator() == "(":
            self.at += 1
            body = self.commands(frozenset())
            self.expect(")")
            return self.trailing(Node("subshell", offset, body=body))
        match word:
            case "!":
                self.at += 1
                return self.node(Node("simple", offset, words=(unknown_word(offset),), body=(self.command(),), name="!"))
            case "{":
                self.at += 1
                body = self.commands(frozenset({"}"}))
                self.expect("}")
                return self.trailing(Node("sequence", offset, body=body))
            case "[[":
                return self.trailing(Node("test", offset, words=self.test_words()))
            case "if":
                return self.trailing(self.if_())
            case "case":
                return self.trailing(self.case())
            case "for" | "select":
                return self.trailing(self.for_())
            case "while" | "until":
                self.at += len(word)
                condition = self.commands(frozenset({"do"}))
                return self.trailing(Node("while", offset, branches=((condition, self.do_body()),)))
            case "function":
                self.at += len(word)
                self.blanks()
                name = self.peek_word()
                self.at += len(name)
                self.blanks()
                if self.text.startswith("(", self.at):
                    self.at += 1
                    self.blanks()
                    self.expect(")")
                return self.function(name, offset)
        match = _FUNCTION.match(self.text, self.at, self.end)
        if match:
            self.at = match.end()
            return self.function(match[1], offset)
        if word in _RESERVED:
            raise ShellError(f"'{word}' stands where no command can begin", self.at)
        return self.simple()

    def function(self, name: str, offset: int) -> Node:
        self.skip_newlines()
        body = self.command()
        return self.node(Node("function", offset, name=name, body=(body,)))

    def expect(self, word: str) -> None:
        self.blanks()
        if not self.text.startswith(word, self.at) or self.at >= self.end:
            found = self.peek_word()[:20] if self.at < self.end else "the end of the script"
            raise ShellError(f"'{word}' must stand here, not {found!r}", min(self.at, max(0, self.end - 1)))
        self.at += len(word)

    def keyword(self, word: str) -> None:
        self.separators()
        self.expect(word)

    def if_(self) -> Node:
        offset = self.at
        branches: list[tuple[tuple[Node, ...] | tuple[Word, ...] | None, tuple[Node, ...]]] = []
        self.at += 2
        stop = frozenset({"elif", "else", "fi"})
        while True:
            condition = self.commands(frozenset({"then"}))
            self.expect("then")
            branches.append((condition, self.commands(stop)))
            word = self.peek_word()
            if word == "elif":
                self.at += 4
                continue
            if word == "else":
                self.at += 4
                branches.append((None, self.commands(frozenset({"fi"}))))
            self.expect("fi")
            return self.node(Node("if", offset, branches=tuple(branches)))

    def do_body(self) -> tuple[Node, ...]:
        self.keyword("do")
        body = self.commands(frozenset({"done"}))
        self.expect("done")
        return body

    def for_(self) -> Node:
        offset = self.at
        self.at += len(self.peek_word())
        self.blanks()
        if self.text.startswith("((", self.at):
            self.balanced(self.at + 2, "((", "))")
            self.separators()
            return self.node(Node("while", offset, branches=(((), self.do_body()),)))
        name = self.peek_word()
        self.at += len(name)
        self.skip_newlines()
        words: list[Word] = []
        if self.peek_word() == "in":
            self.at += 2
            while True:
                self.blanks()
                if self.at >= self.end or self.operator():
                    break
                words.append(self.word())
        self.separators()
        return self.node(Node("for", offset, name=name, words=tuple(words), body=self.do_body()))

    def case(self) -> Node:
        offset = self.at
        self.at += 4
        self.blanks()
        subject = self.word()
        self.skip_newlines()
        self.expect("in")
        branches: list[tuple[tuple[Node, ...] | tuple[Word, ...] | None, tuple[Node, ...]]] = []
        while True:
            self.separators()
            if self.at >= self.end:
                raise ShellError("'esac' is missing", offset)
            if self.peek_word() == "esac":
                self.at += 4
                return self.node(Node("case", offset, words=(subject,), branches=tuple(branches)))
            if self.text[self.at] == "(":
                self.at += 1
            patterns: list[Word] = []
            while True:
                self.blanks()
                patterns.append(self.word())
                self.blanks()
                if self.operator() != "|":
                    break
                self.at += 1
            self.expect(")")
            branches.append((tuple(patterns), self.commands(frozenset({"esac"}))))
            operator = self.operator()
            if operator in (";;", ";&", ";;&"):
                self.at += len(operator)

    def trailing(self, node: Node) -> Node:
        """Redirections after a compound command."""
        redirects: list[tuple[str, Word]] = []
        while True:
            self.blanks()
            if not self.redirect(node, redirects):
                break
        node.redirects = tuple(redirects)
        return self.node(node)

    def simple(self) -> Node:
        node = self.node(Node("simple", self.at))
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[tuple[str, Word]] = []
        while True:
            self.blanks()
            if self.at >= self.end or (self.operator() and not self.text.startswith(("&>", ">&"), self.at)):
                break
            if self.redirect(node, redirects):
                continue
            declares = bool(words) and words[0].literal in ("export", "local", "declare", "readonly", "typeset")
            match = _ASSIGNMENT.match(self.text, self.at, self.end) if not words or declares else None
            if match:
                assignments.append(self.assignment(match))
            else:
                words.append(self.word())
        if not words and not assignments and not redirects:
            raise ShellError(f"'{self.peek_word()[:20]}' stands where no command can begin", self.at)
        node.words, node.assignments, node.redirects = tuple(words), tuple(assignments), tuple(redirects)
        return node

    def assignment(self, match: re.Match[str]) -> Assignment:
        self.at = match.end()
        key = match[2][1:-1] if match[2] else None
        append = match[3] == "+="
        if self.text.startswith("(", self.at) and self.at < self.end:
            self.at += 1
            items: list[Word] = []
            while True:
                self.blanks()
                if self.at >= self.end:
                    raise ShellError(f"the array '{match[1]}' is not closed", match.start())
                if self.text[self.at] == "\n":
                    self.newline()
                elif self.text[self.at] == ")":
                    self.at += 1
                    break
                else:
                    items.append(self.word())
            return Assignment(match[1], key, append, tuple(items), match.start())
        value = self.word(empty=True)
        return Assignment(match[1], key, append, value, match.start())

    def test_words(self) -> tuple[Word, ...]:
        """The words between `[[` and `]]`; operators in it are words of their own."""
        self.at += 2
        words: list[Word] = []
        while True:
            self.blanks()
            if self.at >= self.end:
                raise ShellError("']]' is missing", self.end - 1)
            if self.text.startswith("]]", self.at):
                self.at += 2
                return tuple(words)
            if self.text[self.at] == "\n":
                self.newline()
                continue
            operator = next((one for one in ("&&", "||", "(", ")", "<", ">") if self.text.startswith(one, self.at)), "")
            if operator and not (words and words[-1].literal == "=~"):
                words.append(Word((Segment("text", operator, self.at),), self.at))
                self.at += len(operator)
            elif words and words[-1].literal == "=~":
                match = re.compile(r"[^\s]+").match(self.text, self.at, self.end)
                words.append(unknown_word(self.at))
                self.at = match.end() if match else self.at + 1
            else:
                words.append(self.word())

    # ── redirections and here-documents ──

    def redirect(self, node: Node, redirects: list[tuple[str, Word]]) -> bool:
        match = _REDIRECT.match(self.text, self.at, self.end)
        if match is None:
            return False
        operator = match[2]
        self.at = match.end()
        if match[1] == "" and operator == "<" and self.text.startswith("(", self.at):
            self.balanced(self.at + 1, "(", ")")
            return True
        self.blanks()
        if operator in ("<<", "<<-"):
            start = self.at
            delimiter = self.word()
            raw = self.text[start : self.at]
            plain = "".join(one.text for one in delimiter.segments)
            self.waiting.append((node, plain, operator == "<<-", raw == plain))
        elif self.at < self.end and self.text[self.at] not in "\n;)":
            redirects.append((match[1] + operator if match[1] == "&" else operator, self.word()))
        return True

    def take_heredocs(self) -> None:
        waiting, self.waiting = self.waiting, []
        for node, delimiter, tabs, expanded in waiting:
            start = self.at
            while True:
                if self.at >= self.end:
                    raise ShellError(f"the here-document is not closed: a line '{delimiter}' is missing", node.offset)
                stop = self.text.find("\n", self.at, self.end)
                stop = self.end if stop < 0 else stop
                line = self.text[self.at : stop].rstrip("\r")
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    node.heredocs.append(Heredoc(self.text[start : self.at], start, expanded))
                    self.at = min(stop + 1, self.end)
                    break
                self.at = stop + 1
