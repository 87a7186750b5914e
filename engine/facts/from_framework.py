"""The framework that a proposal names, those it stands on, and its settings, as facts."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ..plan.frameworks import framework_called, lineage, release_number
from ..proposal import Case
from .fact import INT64, Fact
from .kinds import fact
from .settings import Stated, millionths, setting_text, stated_settings, whole_number

#: Items of a list that become facts of their own.
MOST_ITEMS = 200


def framework_facts(case: Case) -> list[Fact]:
    """The framework that the proposal names and those it stands on, and its settings."""
    facts: list[Fact] = []
    heading = case.loaded.stated.proposal
    stated = heading.framework if heading else None
    if stated is None or stated.name is None:
        return facts
    known = framework_called(stated.name)
    version = stated.version
    chain = lineage(known) if known is not None else ()
    held = any(one.read is not None for one in chain)
    facts.append(
        fact(
            "framework",
            "/proposal/framework",
            name=known.name if known is not None else stated.name.lower(),
            named=True,
            version=version,
            release=release_number(version) if version else None,
            read=known.read if known else None,
            same=None if known is None or known.read is None or version is None else _same(version, known.read),
            held=held,
        )
    )
    for one in chain[1:]:
        facts.append(fact("framework", "/proposal/framework", name=one.name, named=False, read=one.read, held=held))
    for name, (value, path) in stated_settings(case).items():
        facts += _setting(name, value, path)
    return facts


def _same(version: str, read: str) -> bool:
    """Whether two commits or releases are one: the shorter hash is the beginning of the longer."""
    short, long = sorted((version.lower(), read.lower()), key=len)
    return len(short) >= 7 and long.startswith(short)


def _setting(name: str, value: Stated, path: str) -> Iterable[Fact]:
    items = value if isinstance(value, list) else None
    number = whole_number(value)
    text = setting_text(value)
    ppm = millionths(value)
    wholes = [whole_number(item) for item in items or ()]
    product = prod(one for one in wholes if one is not None) if wholes and None not in wholes else None
    yield fact(
        "setting",
        path,
        name=name,
        value=text[:400],
        number=number,
        value_ppm=ppm,
        count=len(items) if items is not None else None,
        product=product if product is None or abs(product) < INT64 else INT64,
    )
    for item in dict.fromkeys(setting_text(one) for one in (items or ())[:MOST_ITEMS]):
        yield fact("setting_item", path, name=name, item=item[:400])
