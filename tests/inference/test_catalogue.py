"""The catalogue: which files it reads, in which order, what it refuses, and what its digest covers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from planproof.errors import RuleError, UsageError
from planproof.facts import KINDS as SHIPPED_KINDS
from planproof.inference import Phase, Rule, compiled, load_catalogue, load_rule
from planproof.inference.catalogue import Catalogue, rules_root
from rule_texts import KINDS, RULE, changed


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_rules_come_in_order_of_phase_and_id(tmp_path: Path) -> None:
    for name, phase in (("MEM001", "memory"), ("SHP002", "shape"), ("SHP001", "shape"), ("OUT001", "outcome")):
        written(tmp_path, f"{name}.yaml", changed(id=name, phase=phase))
    catalogue = load_catalogue(KINDS, [tmp_path], shipped=False)
    assert [rule.id for rule in catalogue.rules] == ["SHP001", "SHP002", "MEM001", "OUT001"]
    assert [rule.id for rule in catalogue.by_phase(Phase.SHAPE)] == ["SHP001", "SHP002"]
    found = catalogue.get("MEM001")
    assert found is not None
    assert found.file == (tmp_path / "MEM001.yaml").as_posix()


def test_id_that_is_taken_is_refused_with_both_files(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", RULE)
    written(tmp_path, "b.yaml", RULE)
    with pytest.raises(RuleError, match="MAP004 is taken") as caught:
        load_catalogue(KINDS, [tmp_path], shipped=False)
    assert "a.yaml" in str(caught.value)
    assert str(caught.value.place).endswith("b.yaml:1:5")


def test_rule_in_the_folder_of_another_phase_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "memory/a.yaml", RULE)
    with pytest.raises(RuleError, match="phase 'mapping' and lies in the folder 'memory'"):
        load_catalogue(KINDS, [tmp_path], shipped=False)
    written(tmp_path, "mapping/a.yaml", RULE)
    (tmp_path / "memory/a.yaml").unlink()
    assert load_catalogue(KINDS, [tmp_path], shipped=False).rules


def test_folder_without_rules_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no rule file"):
        load_catalogue(KINDS, [tmp_path], shipped=False)
    with pytest.raises(UsageError, match="is not a folder"):
        load_catalogue(KINDS, [tmp_path / "none"], shipped=False)


def test_bases_beside_the_rules_are_not_rules(tmp_path: Path) -> None:
    written(tmp_path, "bases/small.yaml", "planproof: 1\n")
    written(tmp_path, "a.yml", RULE)
    assert len(load_catalogue(KINDS, [tmp_path], shipped=False).rules) == 1


def test_digest_covers_content_and_nothing_else(tmp_path: Path) -> None:
    written(tmp_path, "one/a.yaml", RULE)
    written(tmp_path, "two/z.yaml", "# a comment\n" + RULE)
    written(tmp_path, "three/a.yaml", changed(title="other"))
    one, two, three = (load_catalogue(KINDS, [tmp_path / name], shipped=False) for name in ("one", "two", "three"))
    assert one.digest == two.digest != three.digest


def test_bytes_that_are_no_yaml_are_a_rule_error_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"id: \xff\n")
    with pytest.raises(RuleError) as caught:
        load_catalogue(KINDS, [tmp_path], shipped=False)
    assert str(caught.value.place).endswith("a.yaml:1:5")


RICH = {
    "params": {"floor": {"value": ["200 GB/s", "80 GB/s"], "grade": "vendor", "source": "s", "date": "2026-11-02"}, "one": 3},
    "when": {
        "all": [{"g": {"kind": "group", "axis": ["tensor", "data"], "size": "!= params.one", "place": "absent"}}],
        "any": [
            [{"l": {"kind": "link", "name": "= g.slowest_link", "bandwidth_bytes_per_s": "= params.floor"}}],
            [{"absent": {"kind": "contention", "plan": "= g.plan", "share_ppm": ">= 5"}}, {"k": {"kind": "link"}}],
        ],
    },
    "concludes": [{"kind": "closed", "capability": "time", "path": "g", "plan": "= g.plan"}],
    "at": "g.slowest_link",
    "counter": "slow-fabric",
    "message": "{g.size} {{}} {params.floor}",
    "source": [{"framework": "X", "version": "1"}, {"brief": "B1", "why": "w"}],
    "examples": {
        "fires": [{"base": "a", "patch": {"/x": None, "/y": {"z": [1, 2]}}, "note": "n"}],
        "silent": [{"base": "b", "facts": [{"kind": "closed", "path": "/p", "capability": "time"}]}],
    },
}


def compiled_folder(tmp_path: Path) -> tuple[Path, Sequence[Rule]]:
    written(tmp_path, "mapping/a.yaml", RULE)
    written(tmp_path, "mapping/b.yaml", changed(id="MAP005", **RICH))
    rules = load_catalogue(KINDS, [tmp_path], shipped=False).rules
    compiled.write(tmp_path, rules, ["mapping"])
    return tmp_path, rules


def test_compiled_rules_are_the_rules_of_the_files(tmp_path: Path) -> None:
    root, rules = compiled_folder(tmp_path)
    read = compiled.fresh(root, ["mapping"])
    assert read is not None
    assert tuple(read) == rules
    assert [rule.digest for rule in read] == [rule.digest for rule in rules]


def test_a_compiled_rule_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, "mapping/a.yaml", RULE)
    written(tmp_path, "mapping/b.yaml", changed(id="MAP005", framework=["nanotron", "torchtitan"]))
    written(tmp_path, "mapping/c.yaml", changed(id="MAP006", status="deprecated"))
    compiled.write(tmp_path, load_catalogue(KINDS, [tmp_path], shipped=False).rules, ["mapping"])
    read = compiled.fresh(tmp_path, ["mapping"])
    assert read is not None
    catalogue = Catalogue(read, KINDS)
    packs = catalogue.packs(Phase.MAPPING)
    assert [names for names, _ in packs] == [(), ("nanotron", "torchtitan")]
    assert read._read == {}
    assert [rule.id for rule in packs[1][1]()] == ["MAP005"]
    assert list(read._read) == [1]
    assert catalogue.get("MAP006") is read[2]
    assert catalogue.get("MAP007") is None


def test_a_framework_that_is_none_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"no framework is called 'torchtitian'.*did you mean 'torchtitan'"):
        load_rule(changed(framework="torchtitian"), "a.yaml", KINDS)


def test_compiled_file_of_other_files_does_not_count(tmp_path: Path) -> None:
    root, _ = compiled_folder(tmp_path)
    written(root, "mapping/a.yaml", RULE.replace("a slow link", "a very slow link"))
    assert compiled.fresh(root, ["mapping"]) is None
    written(root, "mapping/a.yaml", RULE)
    assert compiled.fresh(root, ["mapping"]) is not None
    written(root, "mapping/c.yaml", changed(id="MAP006"))
    assert compiled.fresh(root, ["mapping"]) is None


def test_compiled_file_older_than_a_rule_does_not_count(tmp_path: Path) -> None:
    root, _ = compiled_folder(tmp_path)
    written(root, "mapping/a.yaml", RULE.replace("200 GB/s", "300 GB/s"))
    later = (root / compiled.NAME).stat().st_mtime + 60
    os.utime(root / "mapping/a.yaml", (later, later))
    assert compiled.fresh(root, ["mapping"]) is None


def test_compiled_file_of_the_shipped_rules_is_current() -> None:
    root = rules_root()
    assert isinstance(root, Path)
    if not (root / compiled.NAME).is_file():
        pytest.skip("the shipped rules are not compiled here")
    rules = load_catalogue(SHIPPED_KINDS, compiled=False).rules
    sizes, _ = compiled.sizes_of(root, [phase.value for phase in Phase])
    remedy = "run `python -m planproof.inference`"
    assert (root / compiled.NAME).read_text(encoding="utf-8") == compiled.compiled_text(rules, sizes), remedy


def test_command_compiles_the_rules_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planproof.inference import __main__ as command
    from planproof.inference import catalogue

    written(tmp_path, "mapping/a.yaml", RULE)
    for module in (command, catalogue):
        monkeypatch.setattr(module, "rules_root", lambda: tmp_path)
    monkeypatch.setattr(command, "KINDS", KINDS)
    command.main()
    assert capsys.readouterr().out == f"1 rules in {compiled.NAME}\n"
    assert [rule.id for rule in load_catalogue(KINDS).rules] == ["MAP004"]
    assert load_catalogue(KINDS).rules == load_catalogue(KINDS, compiled=False).rules
