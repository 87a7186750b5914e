"""Every mistake in a rule file is a RuleError that names the line, the column, what was found and what would do."""

from __future__ import annotations

import pytest
from planproof.errors import RuleError
from planproof.inference import load_rule
from rule_texts import KINDS, RULE

FILE = "rules/mapping/slow_link.yaml"


def replaced(old: str, new: str) -> str:
    assert RULE.count(old) == 1, old
    return RULE.replace(old, new)


# (what is replaced, by what, the place of the error, words of its text)
MISTAKES = [
    ("id: MAP004", "id: Map4", "1:5", ["'Map4'", "three capital letters and three digits"]),
    ("title: Tensor-parallel", "titel: Tensor-parallel", "2:1", ["'titel'", "did you mean 'title'", "severity"]),
    ("title: Tensor-parallel group spans a slow link\n", "", "1:1", ["lacks the key 'title'"]),
    ("severity: warning", "severity: fatal", "3:11", ["'fatal'", "error, warning, note"]),
    ("phase: mapping", "phase: maping", "4:8", ["did you mean 'mapping'", "intake, evidence"]),
    ("phase: mapping", "phase: mapping\nstatus: old", "5:9", ["'old'", "stable, experimental, deprecated"]),
    ("phase: mapping", "phase: mapping\ncounter: Not A Slug", "5:10", ["counter", "slug"]),
    ("severity: warning", "severity: error\ncounter: 3", "4:10", ["counter is 3"]),
    (
        "{kind: group, axis: tensor}",
        "{kind: grup, axis: tensor}",
        "9:21",
        ["'grup'", "did you mean 'group'", "contention"],
    ),
    (
        "{kind: group, axis: tensor}",
        "{kind: group, axes: tensor}",
        "9:28",
        ["no field 'axes'", "'axis'", "slowest_link"],
    ),
    (
        "{kind: group, axis: tensor}",
        "{kind: group, axis: tenser}",
        "9:34",
        ["never 'tenser'", "did you mean 'tensor'", "pipeline"],
    ),
    ("{kind: group, axis: tensor}", "{kind: group, axis: [tensor, dta]}", "9:43", ["'dta'", "did you mean 'data'"]),
    ("{kind: group, axis: tensor}", "{kind: group, axis: [tensor, tensor]}", "9:34", ["repeat"]),
    ("{kind: group, axis: tensor}", "{kind: group, axis: []}", "9:34", ["empty"]),
    ("{kind: group, axis: tensor}", '{kind: group, axis: "< tensor"}', "9:34", ["cannot order", "= or !="]),
    ("{kind: group, axis: tensor}", "{kind: group, size: eight}", "9:34", ["whole numbers", "'eight'"]),
    ("{kind: group, axis: tensor}", "{kind: group, size: 1.5}", "9:34", ["whole numbers", "1.5"]),
    ("{kind: group, axis: tensor}", '{kind: group, size: "> 1.5"}', "9:34", ["'1.5'", "params.NAME"]),
    ("{kind: group, axis: tensor}", '{kind: group, size: ">"}', "9:34", ["nothing stands right of '>'"]),
    ("{kind: group, axis: tensor}", "{kind: group, size: 9223372036854775808}", "9:34", ["too large"]),
    ("{kind: group, axis: tensor}", "{kind: group, plan: 8}", "9:34", ["holds a text", 'write "8" in quotes']),
    ("{kind: group, axis: tensor}", "{kind: group, plan: true}", "9:34", ["true", "`yes` and `no`"]),
    (
        "{kind: group, axis: tensor}",
        '{kind: group, plan: "= size.x"}',
        "9:34",
        ["no earlier antecedent is called 'size'"],
    ),
    (
        "{kind: group, axis: tensor}",
        '{kind: group, plan: "= 2.3.1"}',
        "9:34",
        ["neither params.NAME nor NAME.field", "quotes"],
    ),
    (
        "{kind: group, axis: tensor}",
        '{kind: group, plan: "= link.name"}',
        "9:34",
        ["no earlier antecedent is called 'link'"],
    ),
    ("{kind: group, axis: tensor}", "{kind: group, plan: absent}", "9:34", ["every 'group' has the field 'plan'"]),
    ("{kind: group, axis: tensor}", "{axis: tensor}", "9:14", ["needs the key 'kind'"]),
    ("{kind: group, axis: tensor}", "group", "9:14", ["must be a mapping", "'group'"]),
    ("- group: {kind: group, axis: tensor}", "- Group: {kind: group, axis: tensor}", "9:7", ["'Group' cannot name"]),
    ("- group: {kind: group, axis: tensor}", "- params: {kind: group, axis: tensor}", "9:7", ["'params' cannot name"]),
    ("- link: {kind: link,", "- group: {kind: link,", "10:7", ["two antecedents are called 'group'"]),
    ("- link: {kind: link,", "- link: {kind: link, shared: 'yess',", "10:34", ["'yess'", "yes, no"]),
    ('name: "= group.slowest_link"', 'name: "= grop.slowest_link"', "10:32", ["did you mean 'group'"]),
    ('name: "= group.slowest_link"', 'name: "= group.slow_link"', "10:32", ["no field 'slow_link'", "slowest_link"]),
    ('name: "= group.slowest_link"', 'name: "= group.size"', "10:32", ["a text", "a whole number"]),
    ('name: "= group.slowest_link"', 'latency_ns: "= group.size"', "10:38", ["seconds / 1000000000", "no unit"]),
    ('"= group.slowest_link"', "group.slowest_link", "10:32", ["is a text here", '"= group.slowest_link"']),
    ('"= group.slowest_link"', "params.floor", "10:32", ["is a text here"]),
    (
        "- {kind: closed, capability: topology}",
        "- {kind: condition, rule: group.plan, item: x}",
        "13:29",
        ["is a text here"],
    ),
    (
        "- {kind: closed, capability: topology}",
        '- {kind: condition, rule: "= group", item: x}',
        "13:29",
        ["'= group' refers to nothing", "NAME.field"],
    ),
    ('"< params.floor"', '"< params.flor"', "10:79", ["no parameter 'flor'", "did you mean 'floor'"]),
    ('"< params.floor"', '"< 200 GB/s"', "10:79", ["'200 GB/s'", "under `params`"]),
    ("value: 200 GB/s", "value: 200 GiB", "6:18", ["'GiB' is a unit of bytes", "450 GB/s"]),
    ("value: 200 GB/s", "value: 200 GB/sec", "6:18", ["'GB/sec'", "did you mean"]),
    ("value: 200 GB/s", "value: 0.5", "6:18", ["0.5", "whole number"]),
    ("value: 200 GB/s", "value: [200 GB/s, 200 GB/s]", "10:79", ["takes one value", "list"]),
    ("grade: vendor", "grade: good", "6:35", ["'good'", "measured, published"]),
    ("grade: vendor", "grad: vendor", "6:28", ["'grad'", "did you mean 'grade'"]),
    ("params:\n", "params:\n  spare: 3\n", "6:3", ["nothing uses the parameter 'spare'"]),
    ("params:\n", "params:\n  Spare: 3\n", "6:3", ["'Spare' cannot name"]),
    (
        "- {kind: closed, capability: topology}",
        "- {kind: closed, capability: topolgy}",
        "13:32",
        ["did you mean 'topology'"],
    ),
    ("- {kind: closed, capability: topology}", "- {kind: closed}", "13:5", ["needs capability"]),
    (
        "- {kind: closed, capability: topology}",
        '- {kind: closed, capability: "= group.axis"}',
        "13:32",
        ["may hold values", "topology, memory, time"],
    ),
    (
        "- {kind: closed, capability: topology}",
        '- {kind: floor, plan: "= group.slowest_link", bandwidth_bytes_per_s: 1}',
        "13:25",
        ["group.slowest_link may be absent", "always there"],
    ),
    (
        "- {kind: closed, capability: topology}",
        '- {kind: floor, plan: "= group.plan", bandwidth_bytes_per_s: "= group.size"}',
        "13:64",
        ["cannot become floor.bandwidth_bytes_per_s", "bytes/s and no unit"],
    ),
    ("severity: warning", "severity: warning\nat: nowhere", "4:5", ["no antecedent 'nowhere'", "group, link, params"]),
    ("severity: warning", "severity: warning\nat: group.size", "4:5", ["is a number", "pointer"]),
    ("{group.size}", "{group.siz}", "14:10", ["no field 'siz'", "did you mean 'size'"]),
    ("{group.size}", "{grp.size}", "14:10", ["no antecedent 'grp'", "group, link, params"]),
    ("{group.size}", "{group.size:>10}", "14:10", ["{group.size:>10}", "nothing else inside"]),
    ("{group.size}", "{group.size.real}", "14:10", ["{group.size.real}"]),
    ("{group.size}", "{group}", "14:10", ["{NAME.field}"]),
    ("{group.size}", "{group.size!r}", "14:10", ["{group.size!r}"]),
    ("{group.size}", "{group.__class__}", "14:10", ["no field '__class__'"]),
    ("{group.size}", "{", "14:10", ["is no place for a value"]),
    ("{brief: B23,", "{brief: 23 b,", "17:13", ["'23 b' is no sentence", "B23"]),
    ("{brief: B23,", "{url: example.org,", "17:11", ["no web address"]),
    ("{brief: B23,", "{brief: B23, version: '2',", "17:27", ["only a framework has a version"]),
    ("{brief: B23,", "{brief: B23, paper: x,", "17:5", ["names 2 origins", "exactly one"]),
    ("{brief: B23,", "{", "17:5", ["names 0 origins"]),
    ("  fires: [{base: small}]\n", "", "19:3", ["lacks the key 'fires'"]),
    ("fires: [{base: small}]", "fires: []", "19:10", ["empty"]),
    ("fires: [{base: small}]", "fires: [{bse: small}]", "19:12", ["'bse'", "did you mean 'base'"]),
    ("{/cluster/fabric: null}", "{cluster/fabric: null}", "20:34", ["no JSON pointer"]),
    ("fires: [{base: small}]", "fires: [{base: small, facts: [{kind: closed}]}]", "19:33", ["lacks capability"]),
    ("fires: [{base: small}]", "fires: [{base: small, facts: [{kind: closd}]}]", "19:40", ["did you mean 'closed'"]),
    (
        "fires: [{base: small}]",
        "fires: [{base: small, facts: [{kind: closed, path: x, capability: time}]}]",
        "19:54",
        ["JSON pointer"],
    ),
    ("severity: warning", "severity: warning\nseverity: note", "4:1", ["severity"]),
    ("severity: warning", "severity: [", "", []),
]


@pytest.mark.parametrize(("old", "new", "where", "words"), MISTAKES, ids=[f"{m[1][:50]!r}" for m in MISTAKES])
def test_mistake_is_named_with_its_place_and_a_remedy(old: str, new: str, where: str, words: list[str]) -> None:
    with pytest.raises(RuleError) as caught:
        load_rule(replaced(old, new), FILE, KINDS)
    error = caught.value
    assert error.remedy
    assert str(error.place).startswith(f"{FILE}:{where}")
    for word in words:
        assert word in str(error)


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ({}, ["when says nothing"]),
        ({"al": []}, ["did you mean 'all'"]),
        ({"all": []}, ["empty"]),
        ({"any": [[{"x": {"kind": "group"}}]]}, ["one alternative only"]),
        ({"any": [[{"x": {"kind": "group"}}], {"any": []}]}, ["'any'", "all"]),
        ({"all": [{"x": {"kind": "group"}, "y": {"kind": "link"}}]}, ["one key", "x, y"]),
        (
            {"all": [{"x": {"kind": "group"}}], "any": [[{"x": {"kind": "link"}}], [{"y": {"kind": "link"}}]]},
            ["two antecedents"],
        ),
        (
            {"any": [[{"x": {"kind": "group"}}], [{"y": {"kind": "link", "name": "= x.plan"}}]]},
            ["no earlier antecedent"],
        ),
        ({"all": [{f"x{i}": {"kind": "group"}} for i in range(12)]}, ["antecedents", "the most"]),
        ({"all": [{f"x{i}": {"kind": "group", "size": [1, 2, 3, 4]}} for i in range(4)]}, ["256 combinations", "64"]),
        ({"all": [{"absent": {"kind": "group", "size": list(range(20))}}]}, ["antecedents", "absent"]),
    ],
)
def test_wrong_when_is_refused(when: object, words: list[str]) -> None:
    import yaml

    data = yaml.safe_load(RULE) | {"when": when, "message": "m", "remedy": "r"}
    data.pop("params")
    with pytest.raises(RuleError) as caught:
        load_rule(yaml.safe_dump(data), FILE, KINDS)
    assert caught.value.place.line is not None
    for word in words:
        assert word in str(caught.value)


def test_error_that_closes_nothing_is_refused() -> None:
    text = replaced("severity: warning", "severity: error").replace(
        "- {kind: closed, capability: topology}", "- {kind: condition, item: x, rule: y}"
    )
    with pytest.raises(RuleError, match="error that closes nothing"):
        load_rule(text, FILE, KINDS)


def test_parameter_that_meets_two_units_is_refused() -> None:
    text = replaced("kind: link,", 'kind: link, latency_ns: "> params.floor",')
    with pytest.raises(RuleError, match="different units"):
        load_rule(text, FILE, KINDS)


def test_quantity_that_meets_a_field_without_a_unit_is_refused() -> None:
    text = replaced("axis: tensor", 'axis: tensor, size: "> params.most"').replace("params:\n", "params:\n  most: 5 %\n")
    with pytest.raises(RuleError, match="number without a unit"):
        load_rule(text, FILE, KINDS)


def test_name_bound_in_one_alternative_only_is_refused_in_texts() -> None:
    import yaml

    when = {"any": [[{"x": {"kind": "group"}}], [{"y": {"kind": "link"}}]]}
    data = yaml.safe_load(RULE) | {"when": when, "message": "{x.size}", "remedy": "r"}
    data.pop("params")
    with pytest.raises(RuleError, match="no antecedent 'x' is bound whenever the rule holds"):
        load_rule(yaml.safe_dump(data), FILE, KINDS)
