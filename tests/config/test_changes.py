"""What a configuration does to the rules, what it may not do, and that every change is kept with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_cases import configured, repository, shipped
from hypothesis import given
from hypothesis import strategies as st
from planproof.config import Settings, exempted, groups, in_force, nearest_settings
from planproof.config.changes import Change, matches
from planproof.errors import UsageError
from planproof.inference import Rule, Severity


def applied(settings: Settings) -> tuple[dict[str, Rule], tuple[Change, ...]]:
    catalogue, changes = in_force(shipped(), settings)
    return {rule.id: rule for rule in catalogue.rules}, changes


def told(change: Change) -> tuple[str, str, str, str, str, int | None]:
    return change.rule, change.what, change.name, change.before, change.after, change.place.line


def test_every_change_is_kept_with_its_place(tmp_path: Path) -> None:
    rules, changes = applied(
        configured(
            tmp_path,
            'mandatory = ["MEM003"]\nignore = ["INT004"]\n[severity]\nINT002 = "warning"\n[params]\nINT004.keys = ["zero"]\n',
        )
    )
    before = shipped().get("INT004")
    assert before is not None
    assert rules["MEM003"].mandatory
    assert rules["INT004"].ignored
    assert rules["INT002"].severity is Severity.WARNING
    assert rules["INT004"].params["keys"].values == ("zero",)
    assert [told(one) for one in changes] == [
        ("MEM003", "mandatory", "", "not mandatory", "mandatory", 1),
        ("INT002", "severity", "", "error", "warning", 4),
        ("INT004", "param", "keys", before.params["keys"].written, "zero", 6),
        ("INT004", "ignore", "", "in force", "ignored", 2),
    ]


def test_what_changes_nothing_is_no_change(tmp_path: Path) -> None:
    assert applied(configured(tmp_path, 'severity = {INT002 = "error"}\nselect = ["ALL"]'))[1] == ()


def test_select_leaves_the_rest_out_but_not_what_is_mandatory(tmp_path: Path) -> None:
    rules, changes = applied(configured(tmp_path, 'select = ["INT", "EVI001"]\nmandatory = ["MEM003"]'))
    kept = {rule.id for rule in rules.values() if not rule.ignored}
    assert kept == {name for name in rules if name.startswith("INT")} | {"EVI001", "MEM003"}
    left = [one for one in changes if one.what == "select"]
    assert len(left) == len(rules) - len(kept)
    assert (len(groups(left)), left[0].place.line) == (1, 1)
    assert len(groups(left)[0][1]) == len(left)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('ignore = [\n  "INT999"]', "`ignore` names the rule 'INT999', and there is none .did you mean 'INT", 2),
        ('select = ["XYZ"]', "`select` names the rule 'XYZ', and there is none", 1),
        ('mandatory = ["int001"]', "`mandatory` names the rule 'int001'", 1),
        ('[per-file-ignores]\n"a" = ["INT0001"]', "`per-file-ignores` names the rule 'INT0001'.*did you mean 'INT001'", 2),
        ('[severity]\n\nINT0001 = "note"', "`severity` names the rule 'INT0001'", 3),
        ('[severity]\nINT004 = "error"', "INT004 cannot be raised to error", 2),
        ('[params]\nINT004.kees = ["zero"]', "INT004 has no parameter 'kees' .did you mean 'keys'", 2),
        ("[params.INT001]\nx = 1", "INT001 has no parameter 'x'", 2),
        ('mandatory = ["MEM003"]\nignore = ["MEM003"]', "MEM003 is mandatory, and cannot be ignored", 2),
        ('mandatory = ["MEM003"]\nignore = ["MEM"]', "MEM003 is mandatory, and cannot be ignored", 2),
        ('mandatory = ["MEM"]\nseverity = {MEM003 = "note"}', "MEM003 is mandatory, and cannot be lowered", 2),
        ('mandatory = ["MEM"]\n[per-file-ignores]\n"a" = ["MEM003"]', "MEM003 is mandatory, and cannot be suppressed", 3),
    ],
)
def test_what_cannot_be_obeyed_is_refused_at_its_line(tmp_path: Path, text: str, words: str, line: int) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        in_force(shipped(), configured(tmp_path, text))
    assert (caught.value.place.file, caught.value.place.line) == ("planproof.toml", line)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ('ignore = ["INT004"]', "cannot be ignored"),
        ('severity = {INT002 = "note"}', "cannot be lowered"),
        ('[params]\nINT004.keys = ["zero"]', "its parameters are fixed"),
        ('[per-file-ignores]\n"**" = ["INT004"]', "cannot be suppressed"),
    ],
)
def test_what_an_outer_file_made_mandatory_holds_for_those_that_extend_it(tmp_path: Path, inner: str, words: str) -> None:
    root = repository(
        tmp_path,
        {"planproof.toml": 'mandatory = ["INT004", "INT002"]', "a/planproof.toml": f'extend = "../planproof.toml"\n{inner}'},
    )
    with pytest.raises(UsageError, match=words) as caught:
        in_force(shipped(), nearest_settings(root / "a" / "p.yaml"))
    assert caught.value.place.file == "a/planproof.toml"


def test_an_inner_file_may_tighten(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        {
            "planproof.toml": "severity = {INT002 = 'note'}",
            "a/planproof.toml": 'extend = "../planproof.toml"\nmandatory = ["INT004"]',
        },
    )
    rules, changes = applied(nearest_settings(root / "a" / "p.yaml"))
    assert rules["INT004"].mandatory
    assert [one.place.file for one in changes] == ["planproof.toml", "a/planproof.toml"]


def test_exemptions_of_a_file_are_by_its_path_from_the_configuration(tmp_path: Path) -> None:
    text = '[per-file-ignores]\n"old/*.yaml" = ["INT004", "CLM"]\n"x.yaml" = ["INT004"]\n'
    root = repository(tmp_path, {"a/planproof.toml": text})
    settings = nearest_settings(root / "a" / "p.yaml")
    suppressions, changes = exempted(settings, shipped(), root / "a" / "old" / "p.yaml")
    claims = {rule.id for rule in shipped().rules if rule.id.startswith("CLM")}
    assert {one.rule for one in suppressions} == {"INT004"} | claims
    assert all((one.owner, one.line, one.until) == ("configuration", None, None) for one in suppressions)
    assert "'old/*.yaml'" in suppressions[0].reason
    assert told(changes[0]) == ("INT004", "per-file-ignore", "old/*.yaml", "in force", "suppressed", 2)
    assert [one.rule for one in exempted(settings, shipped(), root / "a" / "deep" / "x.yaml")[0]] == ["INT004"]
    for other in ("a/p.yaml", "a/old/deep/p.yaml", "old/p.yaml", "x.yaml"):
        assert exempted(settings, shipped(), root / other) == ((), ())


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.yaml", "p.yaml", True),
        ("*.yaml", "a/b/p.yaml", True),
        ("a/*.yaml", "a/p.yaml", True),
        ("a/*.yaml", "a/b/p.yaml", False),
        ("a/**", "a/b/p.yaml", True),
        ("a/**/p.yaml", "a/p.yaml", True),
        ("a/**/p.yaml", "a/b/c/p.yaml", True),
        ("**/p.yaml", "p.yaml", True),
        ("a/", "a/b/p.yaml", True),
        ("p?.yaml", "p1.yaml", True),
        ("p?.yaml", "p/.yaml", False),
        ("a.b", "axb", False),
        ("[ab].yaml", "a.yaml", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) is fits


@given(st.lists(st.text("ab.-_+()[]|^$", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join))
def test_a_path_fits_itself_and_the_pattern_of_everything(path: str) -> None:
    assert matches(path, path)
    assert matches("**", path)
    assert matches("*", path)
