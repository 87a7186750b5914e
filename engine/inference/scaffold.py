"""A rule to fill in: it loads, and its first example fails until somebody has said what the rule asks for.

Which facts there are to ask for is in the registry; which of them a phase is about is the table here. Nothing is written.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping

from ..errors import UsageError
from .reading import near
from .rule import Phase, Rule

#: For each phase an antecedent that no proposal meets, and the words of a message about it.
_START: Mapping[Phase, tuple[str, str]] = {
    Phase.INTAKE: ("proposal: {kind: proposal, run_steps: \"< 0\"}", "The proposal runs {proposal.run_steps}."),
    Phase.EVIDENCE: ("found: {kind: evidence, grade_rank: \"> 4\"}", "The {found.name} is {found.grade}."),
    Phase.SHAPE: ("plan: {kind: plan, tensor: \"< 1\"}", "Plan '{plan.plan}' has 'tensor' {plan.tensor}."),
    Phase.MAPPING: ("group: {kind: group, size: \"< 1\"}", "A {group.axis} group of '{group.plan}' has {group.size} devices."),
    Phase.MEMORY: ("memory: {kind: memory, stages: \"< 1\"}", "Stage {memory.stage} needs {memory.device_bytes}."),
    Phase.SCHEDULE: ("pipe: {kind: schedule, stages: \"< 1\"}", "Plan '{pipe.plan}' has {pipe.microbatches} microbatches."),
    Phase.NETWORK: ("step: {kind: step, time_ns: \"< 0\"}", "A step of plan '{step.plan}' takes {step.time_ns}."),
    Phase.CLAIMS: ("claim: {kind: claim, value_ppm: \"< -1000000\"}", "'{claim.text}' is claimed."),
    Phase.OUTCOME: ("result: {kind: result, candidates: \"< 0\"}", "{result.candidates} plans were searched."),
}
_ID = re.compile(r"[A-Z]{3}[0-9]{3}")


def scaffold(rule_id: str, phase: str, title: str, known: Iterable[Rule]) -> tuple[str, str]:
    """The file's path in a folder of rules, and its text. Raises UsageError for an id, a phase or a title that will not do."""
    names = [one.value for one in Phase]
    if phase not in names:
        raise UsageError(f"there is no phase '{phase}'{near(phase, names)}", remedy=f"Phases: {', '.join(names)}.")
    if not _ID.fullmatch(rule_id):
        remedy = "Use three capital letters of your own and three digits."
        raise UsageError(f"'{rule_id}' is no rule id", remedy=remedy)
    rules = list(known)
    if any(rule.id == rule_id for rule in rules):
        taken = {rule.id for rule in rules}
        free = next(name for k in range(1, 1000) if (name := f"{rule_id[:3]}{k:03}") not in taken)
        raise UsageError(f"the rule id {rule_id} is taken", remedy=f"Ids are never reused; {free} is free.")
    slug = re.sub(r"[^a-z0-9]+", "-", unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()).strip("-")
    if not slug or "\n" in title or len(title) > 72:
        raise UsageError("the title will not do", remedy="Give it one line of at most 72 characters that says what is wrong.")
    clause, message = _START[Phase(phase)]
    return f"{phase}/{slug[:60].strip('-')}.yaml", _text(rule_id, phase, title, clause, message)


def _text(rule_id: str, phase: str, title: str, clause: str, message: str) -> str:
    return f"""\
# Fill in the lines that are marked, then: planproof rules test FOLDER
id: {rule_id}
title: {json.dumps(title, ensure_ascii=False)}
severity: warning  # error: for what cannot start or changes training; it must then conclude what is closed
phase: {phase}
when:
  all:
    # 1. What to look for, one line a fact. 'planproof facts PROPOSAL' prints those of a proposal, docs/facts.md lists all.
    - {clause}
message: {json.dumps(message, ensure_ascii=False)}  # 2. their own key, the value found, the values that would do
remedy: "Say what to change."  # 3. the next step
source: [{{report: "name the policy, its section and date", why: "say what it is for"}}]  # 4.
examples:
  fires:
    # 5. A change to a base on which the rule must fire; it does not yet.
    - {{base: small, patch: {{/proposal/title: "on which it fires"}}}}
  silent:
    - {{base: small}}  # 6. and the nearest one on which it must not
"""
