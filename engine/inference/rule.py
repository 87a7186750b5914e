"""The parsed rule file: what the two evaluators, the gate and the texts share, and all that the evaluators share.

Vocabulary: a *clause* asks for one fact (an *antecedent*, which has a name) or for the absence of any (`absent`). A
*pattern* is the kind of fact it asks for and the *tests* on its fields; the right side of a test is a constant, a
parameter or a field of an earlier antecedent. A *form* is a text with places for fields. Nothing here reads files or
evaluates anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from ..facts.fact import Fact, Scalar, show
from ..frozen import dataclass
from ..quantity import Provenance
from .counted import joined


class Severity(StrEnum):
    """`error` is only for what cannot start, changes training, contradicts itself or lacks required evidence."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Status(StrEnum):
    """Whether a rule is in force; a deprecated rule loads, so that its id stays taken, and never fires."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"


class Phase(StrEnum):
    """The strata, in order: what a rule concludes is a fact for later phases only."""

    INTAKE = "intake"
    EVIDENCE = "evidence"
    SHAPE = "shape"
    MAPPING = "mapping"
    MEMORY = "memory"
    SCHEDULE = "schedule"
    NETWORK = "network"
    CLAIMS = "claims"
    OUTCOME = "outcome"

    @property
    def order(self) -> int:
        """0 for the first stratum."""
        return PHASES.index(self)


#: The kind of fact that closes a capability.
CLOSED = "closed"
PHASES: tuple[Phase, ...] = tuple(Phase)


class Operator(StrEnum):
    """What a test asks. EQUAL with several values asks for one of them, UNEQUAL for none of them."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of the fact that an antecedent bound: `NAME.field`."""

    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.name}.{self.field}"


@dataclass(frozen=True, slots=True)
class ParamReference:
    """A parameter of the rule: `params.NAME`."""

    name: str

    def __str__(self) -> str:
        return f"params.{self.name}"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: its values in the unit of the fields it meets, as it was written, and on whose word it stands.

    `many` says that it was written as a list. `uses` are the (kind, field) pairs that it is compared with or copied to.
    """

    name: str
    values: tuple[Scalar, ...]
    written: str
    many: bool = False
    provenance: Provenance | None = None
    uses: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """One test on a field. `right` is None for PRESENT and ABSENT, else the constants, a parameter or a reference.

    A test on a field that the fact lacks is false, whatever the operator, ABSENT excepted; so is a test against a field
    that the other fact lacks.
    """

    __test__ = False

    field: str
    operator: Operator
    right: tuple[Scalar, ...] | ParamReference | Reference | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of fact and the tests that its fields must pass."""

    kind: str
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class Clause:
    """An antecedent called `name`, or, where `name` is None, the demand that no fact fits the pattern."""

    name: str | None
    pattern: Pattern


Form = tuple[str | Reference | ParamReference, ...]
Bindings = tuple[tuple[str, Fact], ...]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A fact to conclude: `path` None stands for the finding's own; values are constants, parameters or fields."""

    kind: str
    path: str | Reference | None
    values: tuple[tuple[str, Scalar | Reference | ParamReference], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Why the rule exists: a sentence of the brief, a page, a paper, a framework's own check or a public report."""

    kind: str
    value: str
    version: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A patch on a named base proposal, and facts to add. `patch` maps JSON pointers to values; None deletes."""

    base: str
    patch: tuple[tuple[str, object], ...]
    facts: tuple[Fact, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. It holds where every clause of `all` does and, where `any` has alternatives, every clause of one.

    `severity` is the one in force; `declared` the file's own. `ignored` and `mandatory` come from the configuration.
    `digest` is the sha256 of the file's content with its keys in order.
    """

    id: str
    title: str
    severity: Severity
    declared: Severity
    phase: Phase
    status: Status
    params: Mapping[str, Param]
    counter: bool | str
    all: tuple[Clause, ...]
    any: tuple[tuple[Clause, ...], ...]
    concludes: tuple[Conclusion, ...]
    at: str | Reference | None
    message: Form
    remedy: Form
    source: tuple[Source, ...]
    fires: tuple[Example, ...]
    silent: tuple[Example, ...]
    file: str
    digest: str = field(default="", compare=False)
    #: The frameworks it holds for, by their names in `plan.frameworks`; none: for all, and where none is named.
    frameworks: tuple[str, ...] = ()
    ignored: bool = False
    mandatory: bool = False

    @property
    def active(self) -> bool:
        """Whether the rule is evaluated. An ignored one is if it has force: it leaves what the verdict needs to know."""
        return self.status is not Status.DEPRECATED and (not self.ignored or self.forceful)

    @property
    def forceful(self) -> bool:
        """Whether the verdict hangs on the rule, as its file has it: it is an error, or it concludes something."""
        return self.declared is Severity.ERROR or bool(self.concludes)

    @property
    def lowered(self) -> bool:
        """Whether the configuration took the force out of an error."""
        return self.declared is Severity.ERROR and (self.ignored or self.severity is not Severity.ERROR)

    def clauses(self) -> Iterator[Clause]:
        """Every clause, those of `all` first."""
        yield from self.all
        for alternative in self.any:
            yield from alternative

    def kinds(self) -> frozenset[str]:
        """The kinds of fact that the rule looks at."""
        return frozenset(clause.pattern.kind for clause in self.clauses())


def render(form: Form, bindings: Mapping[str, Fact], params: Mapping[str, Param]) -> str:
    """The text of `form`: fields with their units, parameters as written, `not stated` for a field that is absent.

    What is counted stands in the singular where there is one of it.
    """
    parts: list[tuple[str, bool]] = []
    for part in form:
        if isinstance(part, str):
            parts.append((part, False))
        elif isinstance(part, ParamReference):
            parts.append((params[part.name].written, True))
        else:
            value = bindings[part.name].get(part.field)
            parts.append(("not stated" if value is None else show(part.field, value), True))
    return joined(parts)
