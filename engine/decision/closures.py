"""What the rules closed: capabilities, for all or for one plan, and the chain of rules behind each.

Closing a capability closes those that are built on it (`facts.NEEDS`). Nothing here names a rule or tests a severity: what is
closed follows from the `closed` facts that findings concluded, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import CAPABILITIES, NEEDS
from ..frozen import dataclass
from ..inference import Finding


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain: the capability that a rule closed, by which finding."""

    capability: str
    rule: str
    title: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class NotExamined:
    """A capability that was not used: `through` names the capabilities it is built on that are closed, `chain` the findings."""

    capability: str
    through: tuple[str, ...]
    chain: tuple[Link, ...]
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Closures:
    """Everything that is closed after some phases: links by (plan or None, capability)."""

    links: dict[tuple[str | None, str], tuple[Link, ...]]

    def closed(self, capability: str, plan: str | None = None) -> bool:
        """Whether `capability` is closed for everything, or for `plan`, itself or through what it is built on."""
        return any(
            (scope, one) in self.links for one in requirements(capability) for scope in ({None, plan} if plan else {None})
        )

    def plan_falls(self, plan: str) -> bool:
        """Whether anything is closed for this plan alone: it cannot be recommended."""
        return any(scope == plan for scope, _ in self.links)

    def chain(self, capability: str, plan: str | None = None) -> NotExamined | None:
        """Why `capability` is closed, or None where it is open."""
        scopes = (None, plan) if plan is not None else (None,)
        closed = [one for one in requirements(capability) for scope in scopes if (scope, one) in self.links]
        if not closed:
            return None
        found = {link: None for one in closed for scope in scopes for link in self.links.get((scope, one), ())}
        return NotExamined(capability, tuple(dict.fromkeys(one for one in closed if one != capability)), tuple(found), plan)

    def not_examined(self) -> tuple[NotExamined, ...]:
        """Every capability that is closed for all, in the order of what is built on what."""
        return tuple(found for found in map(self.chain, CAPABILITIES) if found is not None)


def requirements(capability: str) -> tuple[str, ...]:
    """The capability and all that it is built on, nearest first."""
    seen: dict[str, None] = {}
    queue = [capability]
    while queue:
        one = queue.pop(0)
        if one not in seen:
            seen[one] = None
            queue.extend(NEEDS[one])
    return tuple(seen)


def closures(findings: Iterable[Finding]) -> Closures:
    """What `findings` closed. A suppressed finding closes nothing: it concludes a condition instead."""
    links: dict[tuple[str | None, str], list[Link]] = {}
    for finding in findings:
        for fact in finding.concluded:
            if fact.kind != "closed":
                continue
            capability, plan = str(fact["capability"]), fact.get("plan")
            link = Link(capability, finding.rule_id, finding.title, finding.path, finding.message)
            known = links.setdefault((str(plan) if plan is not None else None, capability), [])
            if link not in known:
                known.append(link)
    return Closures({key: tuple(found) for key, found in links.items()})
