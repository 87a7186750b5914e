"""A child process and the two pipes to it: framed messages, deadlines, and an end that cannot leave the child behind.

The child is forked where the system can, since it then starts in a millisecond with everything imported; elsewhere it
is spawned. It dies with its parent: its pipe ends, and it ignores nothing but an interrupt meant for the parent.
Nothing here knows what the messages say.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol

Receive = Callable[[], "bytes | None"]
Send = Callable[[bytes], None]
Main = Callable[[Receive, Send], None]

_HEAD = struct.Struct("<Q")


class Broken(Exception):
    """The child died or did not answer in time; the message says which."""


class Channel(Protocol):
    """The parent's end."""

    def send(self, message: bytes, timeout: float) -> None:
        """Hand `message` to the child, keeping what it answers meanwhile. Raises Broken."""

    def receive(self, timeout: float) -> bytes | None:
        """The next answer, or None after `timeout` seconds without one. Raises Broken where the child is dead."""

    def close(self) -> None:
        """End the child and wait for it."""


def can_fork() -> bool:
    """Whether this system forks."""
    return hasattr(os, "fork")


class ForkedChannel:
    """A forked child that runs `main` and ends."""

    def __init__(self, main: Main) -> None:
        self._buffer = bytearray()
        try:
            to_child, self._write = os.pipe()
            self._read, from_child = os.pipe()
            with warnings.catch_warnings():  # the child runs our loop only, so threads of numpy do not matter to it
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
        except OSError as error:
            raise Broken(f"could not be started: {error.strerror}") from None
        if self.pid == 0:
            _child(main, to_child, from_child)
        os.close(to_child)
        os.close(from_child)
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        self._end = weakref.finalize(self, _end_child, self.pid, self._read, self._write, os.getpid())

    def send(self, message: bytes, timeout: float) -> None:
        """See Channel."""
        rest = memoryview(_HEAD.pack(len(message)) + message)
        deadline = time.monotonic() + timeout
        while rest:
            readable, writable, _ = select.select([self._read], [self._write], [], max(0.0, deadline - time.monotonic()))
            if not readable and not writable:
                raise Broken(f"took no message for {timeout:g} s")
            if readable and self._drain():
                deadline = time.monotonic() + timeout
            if writable:
                try:
                    rest = rest[os.write(self._write, rest) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise Broken(self._death()) from None
                deadline = time.monotonic() + timeout

    def receive(self, timeout: float) -> bytes | None:
        """See Channel."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self._buffer) >= _HEAD.size:
                end = _HEAD.size + _HEAD.unpack_from(self._buffer)[0]
                if len(self._buffer) >= end:
                    message = bytes(self._buffer[_HEAD.size : end])
                    del self._buffer[:end]
                    return message
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            self._drain()

    def close(self) -> None:
        """See Channel."""
        self._end()

    def _drain(self) -> bool:
        try:
            chunk = os.read(self._read, 1 << 20)
        except BlockingIOError:
            return False
        if not chunk:
            raise Broken(self._death())
        self._buffer += chunk
        return True

    def _death(self) -> str:
        """What ended the child; it is gone, or about to be."""
        for _ in range(200):
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waits for all children
                break
            if pid:
                self._end.detach()
                os.close(self._read)
                os.close(self._write)
                code = os.waitstatus_to_exitcode(status)
                return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            time.sleep(0.005)
        return "closed its pipe"


def _child(main: Main, read: int, write: int) -> None:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            if stream not in (read, write):
                os.dup2(quiet, stream)
        low, high = sorted((read, write))
        os.closerange(3, low)
        os.closerange(max(3, low + 1), high)
        os.closerange(max(3, high + 1), 4096)
        main(lambda: _read_message(read), lambda message: _write_all(write, _HEAD.pack(len(message)) + message))
        status = 0
    finally:
        os._exit(status)


def _read_exactly(source: int, size: int) -> bytes | None:
    chunks = bytearray()
    while len(chunks) < size:
        chunk = os.read(source, min(size - len(chunks), 1 << 20))
        if not chunk:
            return None
        chunks += chunk
    return bytes(chunks)


def _read_message(source: int) -> bytes | None:
    head = _read_exactly(source, _HEAD.size)
    return None if head is None else _read_exactly(source, _HEAD.unpack(head)[0])


def _write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


def _end_child(pid: int, read: int, write: int, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the parent holds copies of the pipes, but the child is not its own
        return
    for descriptor in (read, write):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


class SpawnedChannel:
    """A spawned child, where there is no fork. `main` and its arguments must be importable by name."""

    def __init__(self, main: Callable[..., None], *arguments: object) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_spawned, args=(theirs, main, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, message: bytes, timeout: float) -> None:
        """See Channel."""
        try:
            self._connection.send_bytes(message)
        except OSError:
            raise Broken(self._death()) from None

    def receive(self, timeout: float) -> bytes | None:
        """See Channel."""
        try:
            return self._connection.recv_bytes() if self._connection.poll(timeout) else None
        except (EOFError, OSError):
            raise Broken(self._death()) from None

    def close(self) -> None:
        """See Channel."""
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _death(self) -> str:
        self._process.join(1)
        code = self._process.exitcode
        return f"died of signal {-code}" if code is not None and code < 0 else f"ended with status {code}"


def _spawned(connection: Any, main: Callable[..., None], *arguments: object) -> None:
    def receive() -> bytes | None:
        try:
            return bytes(connection.recv_bytes())
        except EOFError:
            return None

    main(receive, connection.send_bytes, *arguments)
