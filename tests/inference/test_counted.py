"""Texts of rules with a count of one: nouns and verbs behind it stand in the singular, in every rule."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from planproof.facts import KINDS
from planproof.facts.fact import Fact, show, unit_of
from planproof.inference import load_catalogue
from planproof.inference.counted import in_singular, joined
from planproof.inference.rule import Form, Rule, render

RULES = load_catalogue(KINDS).rules
#: Words in s that are singular, or verbs of one.
SINGULAR = frozenset({
    "is", "was", "has", "its", "this", "less", "as", "plus", "times", "starts", "takes", "wants", "counts",
    "divides", "needs", "leaves", "refuses", "keeps", "costs", "works", "means", "shares", "says", "does", "gives",
    "holds", "turns", "sends", "stands", "stays", "fits", "fills", "remains", "finds", "differs", "axis", "process",
    "loss", "suppresses", "names", "asks", "shows",
})  # fmt: skip
#: A count of one, at most two words, and a word in s; or a verb of several.
PLURAL = re.compile(
    r"(?<![\w.,:'-])1 (?:(?!in |of |and )[a-z][a-z/-]* ){0,2}?([a-z-]+s)\b"
    r"|(?<![\w.,:'-])1 (are|were|have|stay|do|remain|fit|fill)\b"
)


class Ones(dict[str, int]):
    """A fact's values: 1 in every field that is a plain count, a text elsewhere."""

    def get(self, field: str, default: object = None) -> object:  # type: ignore[override]  # what a fact's mapping is asked
        return 1 if unit_of(field) is None else "x"


def with_ones(form: Form, rule: Rule) -> str:
    class Bound(dict[str, Fact]):
        def __missing__(self, name: str) -> Fact:
            return Fact("any", "", Ones())

    params = {name: replace(one, written="1") for name, one in rule.params.items()}
    return render(form, Bound(), params)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_text_counts_one_of_a_plural(rule: Rule) -> None:
    for form in (rule.message, rule.remedy):
        text = with_ones(form, rule)
        assert [match[0] for match in PLURAL.finditer(text) if (match[1] or match[2]) not in SINGULAR] == [], text


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (" stages, and more", " stage, and more"),
        (" equal stages are left", " equal stage is left"),
        (" are left over", " is left over"),
        (" microbatches a step through", " microbatch a step through"),
        (" key/value heads; nanotron", " key/value head; nanotron"),
        (" of 8 devices", " of 8 devices"),
        (", and 4 stages", ", and 4 stages"),
        (" and pipeline stages", " and pipeline stages"),
        (" times microbatch", " times microbatch"),
    ],
)
def test_the_words_behind_a_one(text: str, becomes: str) -> None:
    assert in_singular(text) == becomes


def test_only_a_value_of_one_counts_and_units_follow() -> None:
    assert joined([("above 1", False), (" devices", False)]) == "above 1 devices"
    assert joined([("", False), ("21", True), (" devices", False)]) == "21 devices"
    assert joined([("a batch of ", False), ("1 sequences", True), (" is", False)]) == "a batch of 1 sequence is"
    assert show("global_batch_sequences", 1) == "1 sequences"
