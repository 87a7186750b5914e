"""SARIF: valid by a schema of our own, and read back by a reader that knows the standard and not the writer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from format_cases import HOSTILE, HOSTILE_NAME, TEXT, checked, finding, hidden, rules, schema, unjudged, written
from planproof.inference import Severity

RULE = "MEM001"


def run_of(text: str) -> dict[str, Any]:
    """The one run of a valid document."""
    body = json.loads(text)
    validator = jsonschema.Draft202012Validator(schema("sarif-2.1.0-subset.json"))
    problems = [f"{'/'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in validator.iter_errors(body)]
    assert problems == []
    (run,) = body["runs"]
    return run


def read(text: str) -> list[dict[str, Any]]:
    """The results as a viewer shows them: rule by its index, file, range, whether it is suppressed."""
    run = run_of(text)
    descriptors = run["tool"]["driver"]["rules"]
    shown = []
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        rule = descriptors[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        parts = urlsplit(place["artifactLocation"]["uri"])
        assert parts.scheme in ("", "file")
        assert ("uriBaseId" in place["artifactLocation"]) == (parts.scheme == "")
        assert place["artifactLocation"].get("uriBaseId", "%SRCROOT%") in run["originalUriBaseIds"]
        shown.append(
            {
                "rule": rule,
                "level": result["level"],
                "text": result["message"]["text"],
                "file": unquote(parts.path),
                "region": place["region"],
                "prints": result["partialFingerprints"],
                "suppressions": result["suppressions"],
            }
        )
    return shown


def test_a_finding_stands_in_its_file_and_range_with_its_rule_and_help() -> None:
    rule = rules()[RULE]
    (one,) = read(written("sarif", checked(finding(RULE, "/plans/1/zero", Severity.ERROR))))
    assert (one["level"], one["file"]) == ("error", "plans/p.yaml")
    assert one["text"] == f"message of {RULE} do it"
    assert one["rule"]["shortDescription"]["text"] == rule.title
    assert RULE in one["rule"]["help"]["text"]
    assert one["rule"]["help"]["markdown"].startswith(f"# {RULE}: ")
    assert one["rule"]["defaultConfiguration"]["level"] == rule.declared.value
    source = TEXT.splitlines()[5]
    region = one["region"]
    assert (region["startLine"], region["endLine"]) == (6, 6)
    assert source[region["startColumn"] - 1 : region["endColumn"] - 1].startswith("2}  # a comment")
    assert region["endColumn"] == len(source) + 1


def test_every_shipped_rule_makes_a_valid_descriptor() -> None:
    found = checked(*(finding(rule_id) for rule_id in rules()))
    run = run_of(written("sarif", found))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted(rules())
    assert len(run["results"]) == len(rules())


def test_each_rule_is_described_once_however_many_files_have_it() -> None:
    first, second = checked(finding(RULE)), checked(finding(RULE), finding("SHP002"), name="q.yaml")
    shown = read(written("sarif", first, second))
    assert [one["rule"]["id"] for one in shown] == [RULE, RULE, "SHP002"]
    assert len({one["prints"]["primaryLocationLineHash"] for one in shown}) == 3


def test_a_suppressed_finding_is_there_and_says_who_and_why() -> None:
    found = checked(
        finding("MEM001", suppressed=hidden("agreed", line=3)), finding("MEM002", suppressed=hidden()), finding("SHP002")
    )
    by_rule = {one["rule"]["id"]: one["suppressions"] for one in read(written("sarif", found))}
    assert by_rule["MEM001"] == [{"kind": "inSource", "status": "accepted", "justification": "agreed (ops)"}]
    assert by_rule["MEM002"][0]["kind"] == "external"
    assert by_rule["SHP002"] == []


def test_fingerprints_survive_moved_lines_reordered_plans_and_other_words() -> None:
    moved = TEXT.replace("plans:\n", "# a line more\nlayouts: all\nplans:\n")
    lines = moved.splitlines(keepends=True)
    swapped = "".join([*lines[:-2], lines[-1], lines[-2]])
    before = read(written("sarif", checked(finding(RULE, "/plans/1/zero"), finding("SHP002", "/plans/0"))))
    others = [finding(RULE, "/plans/0/zero", message="other words"), finding("SHP002", "/plans/1")]
    after = read(written("sarif", checked(*others, text=swapped)))
    prints = [{one["rule"]["id"]: one["prints"] for one in shown} for shown in (before, after)]
    assert prints[0] == prints[1]
    assert [one["region"]["startLine"] for one in before] != [one["region"]["startLine"] for one in after]


def test_findings_that_differ_in_place_file_or_number_have_fingerprints_of_their_own() -> None:
    same = [finding(RULE, "/plans/0", message="one"), finding(RULE, "/plans/0", message="two"), finding(RULE, "/plans/1")]
    shown = read(written("sarif", checked(*same), checked(*same, name="q.yaml")))
    assert len({one["prints"]["planproofFinding/v1"] for one in shown}) == 6


def test_a_file_that_could_not_be_judged_is_a_result_and_a_notification() -> None:
    text = written("sarif", checked(), broken=[unjudged(line=3, column=7)])
    (one,) = read(text)
    assert (one["rule"]["id"], one["level"], one["file"], one["text"]) == ("not-judged", "error", "bad.yaml", "bad bytes mend it")
    assert (one["region"]["startLine"], one["region"]["startColumn"]) == (3, 7)
    (invocation,) = run_of(text)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["descriptor"]["id"] == "input.yaml"


def test_no_files_and_no_findings_are_a_valid_run() -> None:
    run = run_of(written("sarif"))
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert run["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize("name", [HOSTILE_NAME, "a:b.yaml", "../outside.yaml", "ü/ö.yaml", "a?b#c.yaml"])
def test_hostile_names_and_texts_come_back_as_data(name: str) -> None:
    found = finding(RULE, message=HOSTILE, remedy=HOSTILE, suppressed=hidden(HOSTILE))
    text = written("sarif", checked(found, name=name), broken=[unjudged(name, HOSTILE)])
    for one in read(text):
        assert one["file"] == name
        assert one["text"].isprintable()
        assert "](" not in one["text"]  # an embedded link of the standard


def test_a_file_outside_of_the_repository_is_a_whole_uri() -> None:
    (one,) = read(written("sarif", checked(finding(RULE), name="/elsewhere/a b.yaml")))
    assert one["file"] == "/elsewhere/a b.yaml"


def test_no_folder_of_the_machine_is_in_it() -> None:
    from pathlib import Path

    assert str(Path.cwd()) not in written("sarif", checked(finding(RULE)))
