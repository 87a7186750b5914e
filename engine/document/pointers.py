"""RFC 6901 JSON pointers: how everything that speaks of a value names it. Knows nothing of documents."""

from __future__ import annotations

from collections.abc import Iterable


def pointer_to(*tokens: str | int) -> str:
    """The pointer of the value under these keys and list positions: `("a/b", 0)` is `/a~1b/0`, none is the root."""
    return join_pointer(tokens)


def join_pointer(tokens: Iterable[str | int]) -> str:
    """`pointer_to` of an iterable."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """The tokens of a pointer. Neither empty nor begun with `/`: ValueError, a fault of the caller."""
    if not pointer:
        return ()
    if pointer[0] != "/":
        raise ValueError(f"a JSON pointer is empty or begins with '/': {pointer!r}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))
