"""The model's shapes as far as they are known: all of a described model, else those that the proposal or a launch file states.

What a framework refuses of a shape it refuses whether or not the others are known: a launch script rarely says the vocabulary,
and a head that no rank can hold is wrong without it. Nothing is filled in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..proposal import Case
from .fact import Fact
from .kinds import fact

WIDTHS = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary")
PATH = "/model/transformer"


def known_shapes(case: Case) -> dict[str, int]:
    """Widths and counts by name; of a model that is not wholly described those that are stated."""
    model = case.model
    if model is not None:
        found = {name: int(getattr(model, name)) for name in (*WIDTHS, "head_dim")}
        if model.moe is not None:
            found |= {"experts": model.moe.experts, "top_k": model.moe.top_k}
        return found
    stated = case.loaded.stated.model.transformer if case.loaded.stated.model else None
    if stated is None:
        return {}
    values = {name: getattr(stated, name) for name in (*WIDTHS, "head_dim")}
    if stated.moe is not None:
        values |= {"experts": stated.moe.experts, "top_k": stated.moe.top_k}
    return {name: value for name, value in values.items() if value is not None}


def known_layers(case: Case) -> int | None:
    """How many layers plans are cut into: the model's, or those recognised in a graph that stands alone."""
    found = known_shapes(case).get("layers")
    return case.graph.layers if found is None and case.graph is not None and case.model is None else found


def shapes_facts(case: Case) -> Iterator[Fact]:
    """What is known of the shapes, and what contradicts itself in a model that is not wholly described."""
    found = known_shapes(case)
    if not found:
        return
    model = case.model
    stated = case.loaded.stated.model.transformer if case.loaded.stated.model else None
    if model is not None:
        path = PATH if stated is not None else "/model/config"
        flags: dict[str, bool | None] = {"tied": model.tied_embeddings, "biases": model.mlp_bias}
        flags["latent"] = model.latent is not None
        positions = model.learned_positions or None
        moe = model.moe is not None
    else:
        assert stated is not None
        path = PATH
        flags = {"tied": stated.tied_embeddings, "biases": stated.biases, "latent": stated.mla is not None}
        positions = stated.positions or None
        moe = stated.moe is not None
    names = (*WIDTHS, "head_dim", "experts", "top_k")
    name = (model.name or model.family) if model is not None else (stated.family if stated else None) or "transformer"
    yield fact(
        "shapes", path, name=name, **{name: found.get(name) for name in names}, positions=positions, mixture=moe, **flags
    )
    if model is None:
        for code, field, detail in _contradictions(found):
            said = in_words(code, field.replace("/", "."), detail, case)
            yield fact("shape_problem", f"{path}/{field}", code=code, detail=said)


def in_words(code: str, field: str, numbers: Mapping[str, int | str], case: Case) -> str:
    """A contradiction between shapes: their names in a proposal, or in the launch file that states them, and the numbers."""
    launched = case.loaded.launched
    taken = launched.taken if launched is not None else {}

    def named(name: str) -> str:
        inner = f"{field.rpartition('.')[0]}/" if "." in field and name not in ("layers", "heads") else ""
        part = taken.get(f"{PATH}/{inner}{name}")
        return f"'{part.key}'" if part is not None and part.key else f"'{name}'"

    own = field.rpartition(".")[2]
    value = numbers.get("value", numbers.get(own, ""))
    others = " and ".join(f"{named(name)} {one}" for name, one in numbers.items() if name not in (own, "value", "limit"))
    said = {
        "not_positive": "must be 1 or more",
        "negative": "must be 0 or more",
        "too_large": f"is beyond any model: the limit is {numbers.get('limit')}",
        "exceeds": f"is more than {others}",
        "indivisible": f"does not divide {others}",
        "odd": "must be even, for rotary positions turn pairs",
        "mismatch": f"must equal {others}",
        "empty": f"leaves no layer with experts: {others}",
    }.get(code, f"is not known here ({others})")
    return f"{named(own)} {value} {said}"


def _contradictions(found: dict[str, int]) -> Iterator[tuple[str, str, dict[str, int | str]]]:
    """Those of `model.problems` that two known shapes alone decide."""
    heads, groups = found.get("heads"), found.get("kv_heads")
    if heads is not None and groups is not None and (groups > heads or heads % groups):
        yield ("exceeds" if groups > heads else "indivisible"), "kv_heads", {"kv_heads": groups, "heads": heads}
    hidden = found.get("hidden")
    if hidden is not None and heads is not None and "head_dim" not in found and hidden % heads:
        yield "indivisible", "heads", {"heads": heads, "hidden": hidden}
    experts, top_k = found.get("experts"), found.get("top_k")
    if experts is not None and top_k is not None and top_k > experts:
        yield "exceeds", "moe/top_k", {"top_k": top_k, "experts": experts}
