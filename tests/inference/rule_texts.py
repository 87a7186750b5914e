"""A small registry of kinds and rule texts for the tests of inference."""

from __future__ import annotations

from typing import Any

import yaml
from planproof.facts.fact import Kind, declare, flag, text, whole
from planproof.inference import Rule, load_rule

KINDS = declare(
    Kind(
        "group",
        "",
        {
            "axis": text("", one_of=("tensor", "data", "pipeline")),
            "size": whole(""),
            "slowest_link": text("", optional=True),
            "place": text("", optional=True),
            "plan": text(""),
        },
    ),
    Kind(
        "link",
        "",
        {
            "name": text(""),
            "bandwidth_bytes_per_s": whole(""),
            "latency_ns": whole("", optional=True),
            "share_ppm": whole("", optional=True),
            "shared": flag("", optional=True),
        },
    ),
    Kind("contention", "", {"plan": text(""), "share_ppm": whole("")}),
    Kind(
        "closed",
        "",
        {"capability": text("", one_of=("topology", "memory", "time")), "plan": text("", optional=True)},
        "rules",
    ),
    Kind("condition", "", {"item": text(""), "rule": text(""), "plan": text("", optional=True)}, "rules"),
    Kind("floor", "", {"bandwidth_bytes_per_s": whole(""), "plan": text(""), "note": text("", optional=True)}, "rules"),
    Kind(
        "finding",
        "",
        {"rule": text(""), "severity": text(""), "phase": text(""), "plan": text("", optional=True)},
        "rules",
    ),
)

RULE = """\
id: MAP004
title: Tensor-parallel group spans a slow link
severity: warning
phase: mapping
params:
  floor: {value: 200 GB/s, grade: vendor, source: "a data sheet"}
when:
  all:
    - group: {kind: group, axis: tensor}
    - link: {kind: link, name: "= group.slowest_link", bandwidth_bytes_per_s: "< params.floor"}
    - absent: {kind: contention, plan: "= group.plan"}
concludes:
  - {kind: closed, capability: topology}
message: "The group of {group.size} crosses {link.name} of {link.bandwidth_bytes_per_s}, below {params.floor}."
remedy: "Keep it inside one island."
source:
  - {brief: B23, why: "it says so"}
examples:
  fires: [{base: small}]
  silent: [{base: small, patch: {/cluster/fabric: null}}]
"""


def rule(**changes: Any) -> Rule:
    """The rule above with other values at its top level; None removes a key."""
    return load_rule(changed(**changes), "rules/mapping/slow_link.yaml", KINDS)


def changed(**changes: Any) -> str:
    data = yaml.safe_load(RULE)
    for key, value in changes.items():
        if value is None:
            data.pop(key)
        else:
            data[key] = value
    return yaml.safe_dump(data, sort_keys=False)
