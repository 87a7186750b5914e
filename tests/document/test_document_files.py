"""Loading a file: only regular, only so large, never blocking, and named as the user named it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from planproof.document import load_document
from planproof.errors import InputError


def refused(path: str | Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_document(path)
    assert caught.value.remedy
    return caught.value


def test_a_document_is_named_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.yaml").write_bytes(b"a: 1\n")
    monkeypatch.chdir(tmp_path)
    document = load_document("sub/../sub/p.yaml")
    assert document.data == {"a": 1}
    assert document.name == document.place("/a").file == "sub/../sub/p.yaml"
    assert load_document(Path("sub") / "p.yaml").name == "sub/p.yaml"


def test_a_link_to_a_regular_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(b"a: 1\n")
    (tmp_path / "link.yaml").symlink_to("p.yaml")
    assert load_document(tmp_path / "link.yaml").data == {"a": 1}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.yaml")
    assert error.code == "input.missing"
    assert error.place.file == (tmp_path / "none.yaml").as_posix()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "directory" in refused(tmp_path).message


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.yaml")
    assert "FIFO" in refused(tmp_path / "p.yaml").message


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("p.yaml")
        assert "socket" in refused("p.yaml").message


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no device files here")
def test_a_device_is_refused() -> None:
    assert "character device" in refused("/dev/zero").message


def test_a_file_swapped_for_a_fifo_after_the_first_look_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular, swapped = tmp_path / "regular", tmp_path / "p.yaml"
    regular.write_bytes(b"a: 1\n")
    os.mkfifo(swapped)
    look = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: look(regular if path == swapped else path, **more))
    assert "FIFO" in refused(swapped).message


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "p.yaml", "wb") as file:
        file.truncate(100_000_000)

    def read(descriptor: int, size: int) -> bytes:
        raise AssertionError("a file above the limit was read")

    monkeypatch.setattr(os, "read", read)
    error = refused(tmp_path / "p.yaml")
    assert error.code == "input.too_large"
    assert "100,000,000 bytes; the limit is 1,048,576" in error.message


def test_a_file_that_tells_no_size_is_read_to_the_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.yaml").write_bytes(b"a: 1\n")
    asked = []

    def read(descriptor: int, size: int) -> bytes:
        asked.append(size)
        return b" " * size

    monkeypatch.setattr(os, "read", read)
    assert refused(tmp_path / "p.yaml").code == "input.too_large"
    assert sum(asked) == 1_048_577


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.yaml").write_bytes(b"a: 1\n")

    def denied(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    error = refused(tmp_path / "p.yaml")
    assert error.code == "input.unreadable"
    assert "Permission denied" in error.message


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "", "\udcff"])
def test_a_path_that_cannot_be_is_refused(path: str) -> None:
    assert refused(path).code in ("input.unreadable", "input.missing")
