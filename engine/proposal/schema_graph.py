"""The form of an operator graph, in a proposal or in a file of its own. Loaded where there is one to read, and for the schema."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from .schema import Name, Text
from .section import Section

DtypeName = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp64", "int64", "int32", "int8", "bool"]
KindName = Literal[
    "matmul", "batched_matmul", "attention", "convolution", "norm", "softmax", "elementwise", "add", "reduction", "reshape",
    "embedding", "cross_entropy", "routing", "dispatch", "experts", "combine",
]  # fmt: skip
Dims = Annotated[list[Name], Field(max_length=8)]


def _operand(raw: Any) -> Any:
    """A name, or dims, for the mapping that says so."""
    if isinstance(raw, str):
        return {"from": raw}
    return {"dims": raw} if isinstance(raw, list) else raw


class GraphOperand(Section):
    """A tensor: a name, a list of dims, or a mapping."""

    from_: Name | None = Field(None, alias="from", description="the tensor: an input, a parameter, or the output of an operator")
    dims: Dims | None = Field(None, description="its dims; of a tensor named in 'from', what this operator calls them")
    dtype: DtypeName | None = Field(None, description="default: that of the graph")


AnOperand = Annotated[GraphOperand, BeforeValidator(_operand)]


class GraphOperator(Section):
    """One operator of the graph."""

    name: Name | None = Field(None, description="of the operator and of its output")
    kind: KindName | None = Field(None, description="what it computes")
    inputs: Annotated[list[AnOperand], Field(max_length=64)] | None = Field(
        None, description="what it reads, in order: attention reads query, key, value; a product its left side first"
    )
    parameters: Annotated[dict[Name, AnOperand], Field(max_length=64)] | None = Field(
        None, description="role: dims; or the name of one of the graph's parameters"
    )
    output: AnOperand | None = Field(None, description="the dims of what it makes; default: those of its first input")
    outputs: Annotated[dict[Name, AnOperand], Field(max_length=64)] | None = Field(
        None, description="instead of output: several results, each called NAME.KEY"
    )
    over: Dims | None = Field(None, description="dims whose statistics it takes: of a norm, a softmax, a loss, attention's keys")
    whole: Dims | None = Field(None, description="dims that it needs undivided, as the width of a head")
    follows: dict[Name, Name] | None = Field(
        None, description="dim: the dim of the same loop under another name: {kv_heads: heads}, {row_out: row}"
    )
    window: dict[Name, Name | Annotated[int, Field(ge=1, le=10**6)]] | None = Field(
        None, description="dim: the kernel's dim along it, or its size; neighbours exchange half of it"
    )
    causal: bool | None = Field(None, description="attention that sees no later key; default false")
    linear: bool | None = Field(None, description="partial sums may pass through it; default: true for add")


class GraphText(Section):
    """Operators over named dims. Repeated blocks are recognised."""

    file: Text | None = Field(None, description="a file with these keys, inside the repository; then nothing beside it")
    dtype: DtypeName | None = Field(None, description="of tensors that state none; default: that of the products")
    dims: dict[Name, int | Annotated[str, Field(max_length=200)]] | None = Field(
        None,
        description="dim: size; microbatch and sequence_length are the plan's and the workload's; "
        "'microbatch x sequence_length / 8' is rounded up",
    )
    inputs: dict[Name, AnOperand] | None = Field(None, description="what enters: name: dims, or {dims, dtype}")
    parameters: dict[Name, AnOperand] | None = Field(None, description="parameters that several operators share: name: dims")
    operators: list[GraphOperator] | None = Field(None, description="in any order")
