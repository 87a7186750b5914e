"""Which files are meant: proposals below folders and of globs, whatever is named, each once and in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from planproof.files import discover, looks_like_a_proposal
from planproof.files.sniff import HEAD, begins_as_a_proposal

BEGIN = b"planproof: 1\n"
PROPOSALS = [
    BEGIN,
    b"\xef\xbb\xbfplanproof: 1\n",
    b"# a comment\r\n\r\n---\r\nplanproof: 1\r\n",
    b"%YAML 1.2\n---\nplanproof: 1\n",
    b"--- \nplanproof : 1\n",
    b'"planproof": 1\n',
    b"{planproof: 1, model: {}}",
    b'{\n  "planproof": 1}',
    b"'planproof': 1",
    b"#" * (HEAD - 40) + b"\nplanproof: 1\n",
]
OTHERS = [
    b"",
    b"\n# planproof: 1\n",
    b"name: x\nplanproof: 1\n",
    b"planproof\n",
    b"planproofs: 1\n",
    b"- planproof: 1\n",
    b"x: {planproof: 1}\n",
    b'{"a": 1, "planproof": 1}',
    b"\x00\x01planproof: 1",
    b"#" * HEAD + b"\nplanproof: 1\n",
]


@pytest.mark.parametrize("head", PROPOSALS)
def test_a_file_whose_first_key_is_ours_is_a_proposal(head: bytes) -> None:
    assert begins_as_a_proposal(head)


@pytest.mark.parametrize("head", OTHERS)
def test_any_other_file_is_none(head: bytes) -> None:
    assert not begins_as_a_proposal(head)


def test_shipped_proposals_are_found_and_nothing_else_of_the_examples(root: Path) -> None:
    found = {one.path for one in discover([str(root / "examples")]).found}
    assert found >= {str(path) for path in (root / "examples").glob("*/proposal.yaml")}
    assert not any(path.endswith((".csv", "config.json", ".md", ".toml")) for path in found)


def paths(*given: str, only: bool = False) -> list[str]:
    found = discover(given, only_proposals=only).found
    assert [one.error for one in found if one.error is not None] == []
    return [one.path for one in found]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("b.yaml", "a.yml", "z/c.json", "z/d.YAML", "m/e.yaml", ".hidden/f.yaml", ".git/g.yaml", "node_modules/h.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(BEGIN)
    (tmp_path / "other.yaml").write_bytes(b"name: x\n")
    (tmp_path / "notes.txt").write_bytes(BEGIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_below_a_folder_proposals_come_in_order_and_tools_folders_are_passed_over(tree: Path) -> None:
    assert paths(".") == ["a.yml", "b.yaml", ".hidden/f.yaml", "m/e.yaml", "z/c.json", "z/d.YAML"]
    assert paths("z", "./m/") == ["z/c.json", "z/d.YAML", "m/e.yaml"]
    assert discover(["."]).looked_at == 1


def test_a_named_file_is_meant_whatever_it_is_called_and_holds(tree: Path) -> None:
    (tree / ".gitignore").write_text("*\n")
    assert paths("notes.txt", "other.yaml", "./nowhere.yaml") == ["notes.txt", "other.yaml", "nowhere.yaml"]
    assert paths("notes.txt", "other.yaml", "b.yaml", only=True) == []


def test_with_only_proposals_a_named_file_must_be_one(tree: Path) -> None:
    assert paths("notes.txt", "other.yaml", "b.yaml", only=True) == ["b.yaml"]


def test_each_file_comes_once_however_often_it_is_reached(tree: Path) -> None:
    assert paths("z/c.json", ".", "./z/../z", "**/*.json", str(tree / "b.yaml")).count("z/c.json") == 1
    assert len(paths("b.yaml", str(tree / "b.yaml"))) == 1


def test_a_glob_finds_proposals_and_one_without_a_match_is_said(tree: Path) -> None:
    assert paths("**/*.yaml") == ["b.yaml", "m/e.yaml"]
    assert paths("[ab].y*ml") == ["a.yml", "b.yaml"]
    (one,) = discover(["nothing/*.yaml"]).found
    assert one.error is not None
    assert "nothing matches 'nothing/*.yaml'" in one.error.message


def test_a_file_whose_name_looks_like_a_glob_is_meant_as_it_stands(tree: Path) -> None:
    (tree / "[x].yaml").write_bytes(BEGIN)
    assert paths("[x].yaml") == ["[x].yaml"]


def test_ignore_files_count_below_folders_and_for_globs(tree: Path) -> None:
    (tree / ".gitignore").write_text("/z/\n")
    (tree / ".planproofignore").write_text("b.yaml\n")
    assert paths(".") == ["a.yml", ".hidden/f.yaml", "m/e.yaml"]
    assert paths("*/*.yaml", "*.y*") == ["m/e.yaml", "a.yml"]
    assert paths("z/c.json", "m/e.yaml", only=True) == ["m/e.yaml"]
    assert paths("z") == ["z/c.json", "z/d.YAML"], "a folder that is named is looked into"


def test_links_lead_neither_out_nor_into_folders(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.yaml").write_bytes(BEGIN)
    (tree / "m" / "out.yaml").symlink_to(outside / "secret.yaml")
    (tree / "m" / "folder").symlink_to(outside)
    (tree / "m" / "round").symlink_to(tree)
    (tree / "m" / "broken.yaml").symlink_to(tree / "nowhere")
    (tree / "m" / "inside.yaml").symlink_to(tree / "b.yaml")
    found = discover(["m"]).found
    assert [one.path for one in found if one.error is None] == ["m/e.yaml", "m/inside.yaml"]
    assert [one.path for one in found if one.error is not None] == ["m/broken.yaml"]


def test_pipes_and_devices_are_never_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe.yaml")
    assert "pipe.yaml" not in paths(".")
    assert not looks_like_a_proposal(tree / "pipe.yaml")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_what_cannot_be_read_is_said_and_the_rest_is_found(tree: Path) -> None:
    (tree / "b.yaml").chmod(0)
    (tree / "z").chmod(0)
    try:
        found = discover(["."]).found
    finally:
        (tree / "z").chmod(0o755)
    assert [one.path for one in found if one.error is not None] == ["b.yaml", "z"]
    assert "m/e.yaml" in [one.path for one in found]


def test_an_error_while_looking_is_said_and_the_rest_is_found(tree: Path) -> None:
    def wanted(path: str) -> bool:
        if path == "b.yaml":
            raise PermissionError(13, "Permission denied", path)
        return True

    found = discover(["."], wanted=wanted).found
    (wrong,) = [one for one in found if one.error is not None]
    assert (wrong.path, wrong.error.code if wrong.error else "") == ("b.yaml", "input.unreadable")
    assert len(found) == 7


def test_a_very_deep_folder_is_no_recursion(tree: Path) -> None:
    here = tree
    os.chdir(here)
    for _ in range(400):
        os.mkdir("d")
        os.chdir("d")
    Path("deep.yaml").write_bytes(BEGIN)
    os.chdir(tree)
    assert sum(path.endswith("deep.yaml") for path in paths("d")) == 1
