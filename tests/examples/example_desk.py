"""Reviews of the examples, each made once for all tests that look at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from planproof.decision.review import Review
from planproof.pipeline import Session, review_loaded
from planproof.proposal import load_proposal

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
AS_OF = date(2026, 12, 1)
#: Those whose search takes more than ten seconds of a processor.
LONG = (
    "gpt3-175b-a100/proposal-1024.yaml", "alpa-gpt-39b/proposal.yaml", "alpa-moe-27b/proposal.yaml",
    "alpa-moe-70b/proposal.yaml",
    "equal-stages/proposal.yaml", "mixed-devices/proposal.yaml", "alpa-wresnet-4b/proposal.yaml",
    "alpa-wresnet-13b/proposal.yaml", "vision-tower/proposal.yaml",
)  # fmt: skip


@dataclass
class Desk:
    """Reviews every example once, with one catalogue and one worker."""

    opened: Session
    done: dict[str, Review] = field(default_factory=dict)

    def review(self, name: str) -> Review:
        if name not in self.done:
            self.done[name] = review_loaded(load_proposal(EXAMPLES / name), self.opened)
        return self.done[name]
