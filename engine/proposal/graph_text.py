"""A described graph as the text of a proposal's `model.graph`, one operator a line. It is read back before it is given out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..model.described import DescribedGraph, DescribedOperator, Operand, Size

#: Texts that YAML takes for nothing else, and that no flow collection ends.
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def graph_lines(graph: DescribedGraph, indent: int = 4) -> Iterator[str]:
    """The keys of `graph`, each line indented."""
    pad = " " * indent
    if graph.dtype is not None:
        yield f"{pad}dtype: {graph.dtype}"
    yield f"{pad}dims:"
    for name, size in graph.dims.items():
        yield f"{pad}  {_text(name)}: {_size(size)}"
    for key, rows in (("inputs", graph.inputs), ("parameters", graph.parameters)):
        if rows:
            yield f"{pad}{key}:"
            for name, one in rows.items():
                yield f"{pad}  {_text(name)}: {_operand(one, graph, declared=True)}"
    yield f"{pad}operators:"
    for operator in graph.operators:
        yield f"{pad}  - {_operator(operator, graph)}"


def _operator(one: DescribedOperator, graph: DescribedGraph) -> str:
    parts = [f"name: {_text(one.name)}", f"kind: {one.kind}"]
    parts.append(f"inputs: [{', '.join(_operand(x, graph) for x in one.inputs)}]")
    if one.parameters:
        rows = (f"{_text(role)}: {_parameter(held, graph)}" for role, held in one.parameters.items())
        parts.append(f"parameters: {{{', '.join(rows)}}}")
    if len(one.outputs) == 1 and one.outputs[0].tensor == one.name:
        parts.append(f"output: {_operand(one.outputs[0], graph, declared=True)}")
    else:
        rows = (f"{_text(x.tensor.removeprefix(one.name + '.'))}: {_operand(x, graph, declared=True)}" for x in one.outputs)
        parts.append(f"outputs: {{{', '.join(rows)}}}")
    for key, dims in (("over", one.over), ("whole", one.whole)):
        if dims:
            parts.append(f"{key}: {_dims(dims)}")
    for key, pairs in (("follows", one.follows), ("window", one.window)):
        if pairs:
            parts.append(f"{key}: {_pairs(pairs)}")
    parts += [f"{key}: true" for key in ("causal", "linear") if getattr(one, key) and not (key == "linear" and one.kind == "add")]
    return "{" + ", ".join(parts) + "}"


def _operand(one: Operand, graph: DescribedGraph, *, declared: bool = False) -> str:
    dtype = one.dtype if one.dtype not in (None, graph.dtype) else None
    if declared:
        dims = _dims(one.dims or ())
        return f"{{dims: {dims}, dtype: {dtype}}}" if dtype else dims
    return _text(one.tensor) if one.dims is None else f"{{from: {_text(one.tensor)}, dims: {_dims(one.dims)}}}"


def _parameter(one: Operand, graph: DescribedGraph) -> str:
    shared = graph.parameters.get(one.tensor)
    if shared is None:
        return _operand(one, graph, declared=True)
    return _operand(one if one.dims != shared.dims else Operand(one.tensor), graph)


def _dims(dims: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, dims))}]"


def _pairs(pairs: Mapping[str, str] | Mapping[str, str | int]) -> str:
    return "{" + ", ".join(f"{_text(a)}: {b if isinstance(b, int) else _text(b)}" for a, b in pairs.items()) + "}"


def _size(size: Size) -> str:
    words = " x ".join((*((str(size.factor),) if size.factor != 1 or not size.words else ()), *size.words))
    return f"{words} / {size.divisor}" if size.divisor != 1 else words


def _text(text: str) -> str:
    return text if _PLAIN.match(text) and text.lower() not in _WORDS else json.dumps(text)
