"""A file that a proposal names is read from inside its repository or refused, with its place and a remedy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planproof.errors import FileReferenceError, Place
from planproof.proposal.references import Referenced, read_reference, repository_root

PLACE = Place("plans/p.yaml", 3, 9, "/profile/file")
SECRET = b"outside the repository"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a proposal in `plans/`, data beside and above it, and a file that it must not reach."""
    repository = tmp_path / "repository"
    (repository / "plans" / "data").mkdir(parents=True)
    (repository / ".git").mkdir()
    (repository / ".git" / "config").write_bytes(b"token")
    (repository / "plans" / "p.yaml").write_bytes(b"a: 1\n")
    (repository / "plans" / "data" / "x.csv").write_bytes(b"1,2\n")
    (repository / "shared.csv").write_bytes(b"3,4\n")
    (tmp_path / "secret").write_bytes(SECRET)
    return repository


def read(reference: str, root: Path, **more: int) -> Referenced:
    return read_reference(reference, proposal=root / "plans" / "p.yaml", root=root, place=PLACE, **more)


def refused(reference: str, root: Path, **more: int) -> FileReferenceError:
    with pytest.raises(FileReferenceError) as caught:
        read(reference, root, **more)
    assert caught.value.place == PLACE
    assert caught.value.remedy
    return caught.value


def test_a_file_of_the_repository_is_read_with_its_digest(root: Path) -> None:
    found = read("data/x.csv", root)
    assert found == Referenced("data/x.csv", "plans/data/x.csv", b"1,2\n", hashlib.sha256(b"1,2\n").hexdigest())


@pytest.mark.parametrize(
    ("reference", "inside"),
    [
        ("./data//x.csv", "plans/data/x.csv"),
        ("../shared.csv", "shared.csv"),
        ("data/../../shared.csv", "shared.csv"),
        ("p.yaml", "plans/p.yaml"),
    ],
)
def test_a_path_may_move_within_the_repository(reference: str, inside: str, root: Path) -> None:
    assert read(reference, root).path_in_repository == inside


def test_a_link_within_the_repository_is_followed(root: Path) -> None:
    (root / "plans" / "up").symlink_to("..")
    (root / "plans" / "x").symlink_to(root / "shared.csv")
    assert read("up/shared.csv", root).path_in_repository == "shared.csv"
    assert read("x", root).raw == b"3,4\n"


def test_a_root_and_a_proposal_given_relatively_or_through_links_do(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / "alias").symlink_to(root)
    monkeypatch.chdir(root / "plans")
    assert read_reference("../shared.csv", proposal=Path("p.yaml"), root=Path(".."), place=PLACE).raw == b"3,4\n"
    alias = root.parent / "alias"
    assert read_reference("data/x.csv", proposal=alias / "plans" / "p.yaml", root=root, place=PLACE).raw == b"1,2\n"


@pytest.mark.parametrize(
    ("reference", "code", "word"),
    [
        ("", "reference.empty", "names no file"),
        ("  ", "reference.empty", "names no file"),
        ("/etc/passwd", "reference.absolute", "absolute"),
        ("//server/share/x", "reference.absolute", "absolute"),
        ("~/x.csv", "reference.absolute", "'~'"),
        ("~root/x.csv", "reference.absolute", "'~'"),
        ("C:/x.csv", "reference.absolute", "drive letter"),
        ("c:x.csv", "reference.absolute", "drive letter"),
        ("\\\\server\\share", "reference.form", "backslash"),
        ("data\\x.csv", "reference.form", "backslash"),
        ("data/x.csv\0.txt", "reference.form", "U+0000"),
        ("data/\x1b[2J", "reference.form", "U+001B"),
        ("data/\udcff", "reference.form", "U+DCFF"),
        ("a/" * 600 + "b", "reference.form", "1,201 characters"),
        ("https://example.org/x.csv", "reference.url", "nothing is fetched"),
        ("HTTP:x", "reference.url", "nothing is fetched"),
        ("file:///etc/passwd", "reference.url", "nothing is fetched"),
        ("s3://bucket/x", "reference.url", "nothing is fetched"),
        ("data:text/plain,1", "reference.url", "nothing is fetched"),
        ("../../secret", "reference.outside", "'..'"),
        ("../../no such file", "reference.outside", "'..'"),
        ("../../repository/shared.csv", "reference.outside", "'..'"),
        ("../../../../../../../../etc/passwd", "reference.outside", "'..'"),
        ("../.git/config", "reference.outside", ".git"),
        ("../.GIT/config", "reference.outside", ".git"),
        ("data", "reference.not_a_file", "directory"),
        ("data/", "reference.not_a_file", "directory"),
        ("..", "reference.not_a_file", "directory"),
        (".", "reference.not_a_file", "directory"),
        ("data/none.csv", "reference.missing", "does not exist"),
        ("none/x.csv", "reference.missing", "does not exist"),
        ("p.yaml/x.csv", "reference.missing", "does not exist"),
        ("x" * 300, "reference.unreadable", "name too long"),
    ],
)
def test_a_reference_that_is_no_file_of_the_repository_is_refused(
    reference: str, code: str, word: str, root: Path
) -> None:
    error = refused(reference, root)
    assert error.code == code
    assert word in error.message
    assert error.message.isprintable()


@pytest.mark.parametrize("target", ["secret", "no such file"])
def test_a_link_that_leaves_the_repository_is_refused_whether_its_target_exists_or_not(target: str, root: Path) -> None:
    (root / "plans" / "leaf").symlink_to(root.parent / target)
    (root / "plans" / "folder").symlink_to(root.parent)
    (root / "plans" / "relative").symlink_to(f"../../{target}")
    (root / "plans" / "twice").symlink_to("leaf")
    for reference in ("leaf", f"folder/{target}", "relative", "twice"):
        assert refused(reference, root).code == "reference.outside"


def test_a_repository_beside_it_with_a_longer_name_is_outside(root: Path) -> None:
    beside = root.parent / "repository2"
    beside.mkdir()
    (beside / "x").write_bytes(SECRET)
    (root / "plans" / "x").symlink_to(beside / "x")
    assert refused("x", root).code == "reference.outside"


def test_a_link_into_git_is_refused(root: Path) -> None:
    (root / "plans" / "x").symlink_to(root / ".git" / "config")
    assert ".git" in refused("x", root).message


def test_a_proposal_outside_the_root_is_refused(root: Path) -> None:
    with pytest.raises(FileReferenceError, match="outside the repository"):
        read_reference("x", proposal=root.parent / "p.yaml", root=root, place=PLACE)


def test_links_that_end_nowhere_are_refused(root: Path) -> None:
    (root / "plans" / "a").symlink_to("b")
    (root / "plans" / "b").symlink_to("a")
    (root / "plans" / "dangling").symlink_to("none.csv")
    assert refused("a", root).code in ("reference.not_a_file", "reference.missing")
    assert refused("dangling", root).code == "reference.missing"


def test_a_fifo_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "plans" / "fifo")
    assert "FIFO" in refused("fifo", root).message


def test_an_empty_file_is_refused(root: Path) -> None:
    (root / "plans" / "none.csv").touch()
    assert refused("none.csv", root).code == "reference.empty"


def test_a_file_above_the_limit_is_refused_and_one_at_it_is_read(root: Path) -> None:
    assert read("data/x.csv", root, limit=4).raw == b"1,2\n"
    error = refused("data/x.csv", root, limit=3)
    assert error.code == "reference.too_large"
    assert "4 bytes; the limit is 3" in error.message


def test_the_limit_is_eight_mebibytes_unless_said_otherwise(root: Path) -> None:
    with open(root / "plans" / "large", "wb") as file:
        file.truncate(8 * 1024 * 1024 + 1)
    assert "8,388,609 bytes; the limit is 8,388,608" in refused("large", root).message


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc here")
def test_files_that_the_kernel_makes_up_are_refused() -> None:
    for reference in (
        "proc/self/status",
        "proc/self/environ",
        "dev/zero",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ):
        with pytest.raises(FileReferenceError):
            read_reference(reference, proposal=Path("/p.yaml"), root=Path("/"), place=PLACE)


def test_a_file_that_changes_while_it_is_read_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = iter([b"1", b""])
    monkeypatch.setattr(os, "read", lambda descriptor, size: next(parts))
    assert "gave 1 bytes where its size is 4" in refused("data/x.csv", root).message


def to_secret(path: Path, secret: Path) -> None:
    path.unlink()
    path.symlink_to(secret)


def to_folder_of_secret(path: Path, secret: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    (secret.parent / path.name).write_bytes(SECRET)
    path.parent.symlink_to(secret.parent)


def to_fifo(path: Path, secret: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [to_secret, to_folder_of_secret, to_fifo])
@pytest.mark.parametrize("moment", ["realpath", "stat"])
def test_a_file_swapped_after_it_was_judged_is_not_followed(
    swap: Callable[[Path, Path], None], moment: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = root / "plans" / "data" / "x.csv"
    waiting = [swap]
    if moment == "realpath":
        resolve = os.path.realpath

        def realpath(path: str) -> str:
            resolved = resolve(path)
            if waiting and resolved == str(target):
                waiting.pop()(target, root.parent / "secret")
            return resolved

        monkeypatch.setattr(os.path, "realpath", realpath)
    else:
        look = os.stat

        def stat(path: str, **more: object) -> os.stat_result:
            status = look(path, **more)
            if waiting and path == "x.csv":
                waiting.pop()(target, root.parent / "secret")
            return status

        monkeypatch.setattr(os, "stat", stat)
    if swap is to_folder_of_secret and moment == "stat":
        # The folder was opened before the swap: what was judged is what is read.
        assert read("data/x.csv", root).raw == b"1,2\n"
    else:
        message = refused("data/x.csv", root).message
        assert swap is not to_fifo or "FIFO" in message
    assert not waiting


def test_an_unreadable_file_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str, flags: int, **more: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(os, "supports_dir_fd", {denied})
    error = refused("data/x.csv", root)
    assert (error.code, "Permission denied" in error.message) == ("reference.unreadable", True)


def test_a_system_that_cannot_open_safely_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    assert "operating system" in refused("data/x.csv", root).message


def test_no_descriptor_stays_open(root: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    read("data/x.csv", root)
    refused("none/x", root)
    refused("data", root)
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_three_hundred_folders_down_is_read(root: Path) -> None:
    deep = root / "plans" / Path(*["d"] * 300)
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"deep")
    assert read("d/" * 300 + "x", root).raw == b"deep"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(["..", ".", "", "plans", "data", "x.csv", "leaf", "folder", "secret", ".git", "repository"])
    )
    | st.lists(st.text(max_size=5), max_size=4)
)
def test_no_reference_reaches_beyond_the_root(root: Path, components: list[str]) -> None:
    for name, target in (("leaf", root.parent / "secret"), ("folder", root.parent)):
        if not (root / "plans" / name).is_symlink():
            (root / "plans" / name).symlink_to(target)
    try:
        found = read("/".join(components), root)
    except FileReferenceError:
        return
    assert found.raw in (b"1,2\n", b"a: 1\n", b"3,4\n")


def test_the_root_is_the_nearest_folder_with_a_mark(root: Path) -> None:
    assert repository_root(root / "plans" / "p.yaml") == root
    (root / "plans" / "planproof.toml").touch()
    assert repository_root(root / "plans" / "p.yaml") == root / "plans"


def test_a_git_file_marks_a_root_too(root: Path) -> None:
    (root / "plans" / ".git").write_text("gitdir: elsewhere")
    assert repository_root(root / "plans" / "data" / "p.yaml") == root / "plans"


def test_without_a_mark_the_root_is_the_proposals_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    monkeypatch.chdir(root)
    assert repository_root("plans/p.yaml") == root / "plans"
