"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from planproof.errors import UsageError
from planproof.report import output
from planproof.report.output import write_whole


def test_the_text_is_written_as_it_is_and_no_other_file_is_left(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.md", "é\n\u2028x\r\n")
    assert (tmp_path / "a.md").read_bytes() == "é\n\u2028x\r\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_a_failure_on_the_way_keeps_the_old_content_and_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.md"
    file.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_an_existing_file_is_kept_where_it_may_not_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("old")
    with pytest.raises(UsageError, match="exists already"):
        write_whole(file, "new", overwrite=False)
    assert file.read_text() == "old"


def test_a_file_that_appears_meanwhile_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "a.md", os.link

    def late(source: str, target: Path) -> None:
        file.write_text("somebody else's")
        link(source, target)

    monkeypatch.setattr(output.os, "link", late)
    with pytest.raises(UsageError, match="exists already"):
        write_whole(file, "new", overwrite=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["somebody else's"]


def test_the_mode_of_a_replaced_file_stays_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    old.write_text("x")
    old.chmod(0o640)
    usual.write_text("x")
    write_whole(old, "y")
    write_whole(new, "y")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join()
    assert got == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["missing/a.md", ".", "a\0b", "x" * 5000])
def test_a_place_where_nothing_can_be_written_is_a_usage_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write_whole(f"{tmp_path}/{name}", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="a pipe that nobody reads"):
        write_whole(tmp_path / "pipe", "text")


def test_a_pipe_with_a_reader_gets_all_of_it_however_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    writing = threading.Thread(target=write_whole, args=(tmp_path / "pipe", "x" * 300_000), daemon=True)
    writing.start()
    got = b""
    while len(got) < 300_000:
        # Nothing while the writer has not opened its end.
        got += os.read(reader, 65_536)
    writing.join(timeout=10)
    assert not writing.is_alive()
    assert os.read(reader, 10) == b""
    os.close(reader)
    assert got == b"x" * 300_000
