"""What the model's configuration has that the figures lack, as facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.facts.from_case import case_facts
from planproof.hardware import open_library
from planproof.proposal import parse_proposal, resolve

FOLDER = Path(__file__).resolve().parents[1] / "data" / "hf_config"


@pytest.mark.parametrize(("sequence", "told"), [(4096, 0), (4097, 1)])
def test_a_window_counts_where_the_sequence_is_longer(sequence: int, told: int) -> None:
    text = f"planproof: 1\nmodel: {{config: {{file: mistral_7b.json}}}}\nworkload: {{sequence_length: {sequence}}}\n"
    case = resolve(parse_proposal(text.encode(), "proposal.yaml", FOLDER / "proposal.yaml"), open_library())
    rows = [one for one in case_facts(case) if one.kind == "config_left_out"]
    assert len(rows) == told
    assert all(one["keys"] == "sliding_window" for one in rows)
