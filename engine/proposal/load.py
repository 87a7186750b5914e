"""From bytes to a validated proposal that remembers where each value stands.

Every failure is one InputError with file, line, column, the value, and what would do. Where several values are wrong, the
first in the file is the error and the message counts the rest.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..document import Document, parse_document
from ..document.source import read_file
from ..errors import InputError, Place
from ..files.sniff import begins_as_a_proposal
from ..frozen import dataclass
from .references import repository_root
from .schema import Proposal
from .section import Section

if TYPE_CHECKING:
    from .launching import Launched

S = TypeVar("S", bound=Section)
VERSION_REMEDY = "Begin the file with 'planproof: 1', the version of the format."


@dataclass(frozen=True, slots=True)
class LoadedProposal:
    """A proposal with its text: `stated` is what was written, `document` knows the places, `root` bounds its references."""

    document: Document
    stated: Proposal
    path: Path
    root: Path
    #: What its launch files say, and what became of it; None where there are none.
    launched: Launched | None = None
    #: A launch file on its own: judged on what it can answer, what it lacks told in one.
    bare: bool = False

    def place(self, pointer: str) -> Place:
        """The place of the value at a JSON pointer; of the nearest ancestor where it is absent."""
        return self.document.place(pointer)


def load_proposal(path: str | Path, *, name: str | None = None, bare: bool = False) -> LoadedProposal:
    """Read and validate the proposal at `path`. Raises InputError, and nothing else, for whatever is wrong with it.

    A launch file of a training framework makes a proposal too. `bare`: what it lacks is then told in one.
    """
    given = os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
    raw = read_file(path, given) if name is None else Path(path).read_bytes()
    return parse_proposal(raw, given if name is None else name, Path(path), bare=bare)


def parse_proposal(raw: bytes, name: str, path: Path, *, bare: bool = False) -> LoadedProposal:
    """The same for bytes at hand (standard input, a patched example): `path` is where they would stand."""
    if not begins_as_a_proposal(raw):
        # Imported where it is needed alone: proposals are the rule, and lint is to start quickly.
        from .launching import load_launch

        found = load_launch(raw, name, path, bare=bare)
        if found is not None:
            return found
    document = parse_document(raw, name)
    stated = validate(document)
    if stated.launch:
        from .launching import with_launch

        return with_launch(document, stated.launch, path)
    return LoadedProposal(document, stated, path, repository_root(path))


def validate(document: Document) -> Proposal:
    """The document as a Proposal. Raises InputError for an unknown key, a wrong type, unit or range, with its place."""
    data = document.data
    if not isinstance(data, dict) or "planproof" not in data:
        raise InputError(
            "the key 'planproof' is missing: this is not a planproof proposal",
            place=document.place(""),
            remedy=VERSION_REMEDY,
            code="input.version",
        )
    version = data["planproof"]
    if isinstance(version, bool) or version != 1:
        raise InputError(
            f"planproof: {version!r} is not a version of the format that this release reads",
            place=document.place("/planproof"),
            remedy=VERSION_REMEDY,
            code="input.version",
        )
    try:
        return Proposal.model_validate(data)
    except ValidationError as error:
        raise _translated(error, document, data) from None


def validate_part(section: type[S], data: object, document: Document, base: str) -> S:
    """A section that stands at the pointer `base` of a document. Raises InputError as `validate` does."""
    try:
        return section.model_validate(data)
    except ValidationError as error:
        raise _translated(error, document, data, base) from None


def _translated(error: ValidationError, document: Document, data: object, base: str = "") -> InputError:
    found = []
    details = error.errors(include_url=False, include_input=True)
    # The other branch of "a word or a mapping": a mapping is there, so what is wrong stands inside it, where anything does.
    inside = [one for one in details if not (one["type"] == "literal_error" and isinstance(one["input"], dict))]
    for detail in inside or details:
        inner, on_key = _pointer(detail, data)
        pointer = base + inner
        place = document.key_place(pointer) if on_key else document.place(pointer)
        found.append((place.line or 0, place.column or 0, detail, place, pointer))
    found.sort(key=lambda item: item[:2])
    _, _, detail, place, pointer = found[0]
    # The branches of a union each say what is wrong with one value.
    others = len({row[4] for row in found}) - 1
    more = f" ({others} more after this one)" if others else ""
    message = _message(detail, pointer)
    code = "input." + str(detail["type"]).removeprefix("planproof_")
    return InputError(message + more, place=place, code=code, remedy="See docs/proposal.md, or 'planproof schema'.")


def _pointer(detail: ErrorDetails, data: Any) -> tuple[str, bool]:
    """The JSON pointer of an error, without the names that unions put into its path; and whether the key is at fault."""
    pointer, here = "", data
    for part in detail["loc"]:
        if isinstance(here, dict) and str(part) in here:
            here, pointer = here[str(part)], pointer + "/" + _escape(str(part))
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here, pointer = here[part], f"{pointer}/{part}"
    key = detail.get("ctx", {}).get("key")
    if isinstance(key, str) and isinstance(here, dict) and key in here:
        return pointer + "/" + _escape(key), "unknown_key" in detail["type"]
    return pointer, False


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _message(detail: ErrorDetails, pointer: str) -> str:
    kind, value = str(detail["type"]), detail["input"]
    where = pointer.strip("/").replace("/", ".") or "the proposal"
    if kind.startswith("planproof_"):
        return f"{where}: {detail['msg']}"
    context = detail.get("ctx", {})
    shown = _short(value)
    if where.startswith("proposal.framework.settings.") and not isinstance(value, str):
        form = "expected a number, a text, true, false or a list of them"
        return f"{where}: {form}, found {shown}; nested options have dots: 'a.b: 1'"
    match kind:
        case "int_type" | "int_parsing" | "int_from_float":
            return f"{where}: expected a whole number, found {shown}"
        case "float_type" | "float_parsing":
            return f"{where}: expected a number, found {shown}"
        case "bool_type" | "bool_parsing":
            hint = " (yes, no, on and off are texts here)" if value in ("yes", "no", "on", "off", "Yes", "No") else ""
            return f"{where}: expected true or false, found {shown}{hint}"
        case "string_type":
            return f"{where}: expected a text, found {shown}" + (
                "; put it in quotes" if isinstance(value, int | float) else ""
            )
        case "list_type" | "tuple_type":
            return f"{where}: expected a list, found {shown}"
        case "dict_type" | "model_type":
            return f"{where}: expected a mapping, found {shown}"
        case "literal_error":
            return f"{where}: {shown} is not one of {context.get('expected', '')}"
        case "greater_than_equal":
            return f"{where}: {shown} is too small; at least {_bound(context.get('ge'))}"
        case "less_than_equal":
            return f"{where}: {shown} is too large; at most {_bound(context.get('le'))}"
        case "greater_than":
            return f"{where}: {shown} is too small; above {_bound(context.get('gt'))}"
        case "less_than":
            return f"{where}: {shown} is too large; below {_bound(context.get('lt'))}"
        case "too_short":
            least = context.get("min_length")
            said = "an empty list says nothing" if not value else f"{shown} is too short"
            return f"{where}: {said}; write at least {least} {'entry' if least == 1 else 'entries'}, or leave the key out"
        case "too_long":
            return f"{where}: {shown} is too long; at most {context.get('max_length')} entries are read"
        case "string_too_short":
            return f"{where}: an empty text says nothing; write one, or leave the key out"
        case "string_too_long":
            return f"{where}: a text of {len(str(value))} characters is too long; at most {context.get('max_length')}"
        case _:
            return f"{where}: {detail['msg'][0].lower()}{detail['msg'][1:]}, found {shown}"


def _bound(value: Any) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def schema() -> dict[str, Any]:
    """The JSON schema of a proposal, for editors and for `planproof schema`."""
    body = Proposal.model_json_schema(by_alias=True)
    body["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    body["required"] = ["planproof"]
    body["title"] = "planproof proposal"
    definitions = body["$defs"]
    # What the loader takes beside the canonical form: one mapping for a list of them, a name for an optimizer.
    for section, key in (("ClusterDescription", "nodes"), ("ClusterDescription", "fabric")):
        options = definitions[section]["properties"][key]["anyOf"]
        options.insert(0, dict(options[0]["items"]))
    launch = body["properties"]["launch"]["anyOf"]
    launch.insert(0, dict(launch[0]["items"]))
    definitions["WorkloadChoice"]["properties"]["optimizer"]["anyOf"].insert(0, {"type": "string"})
    _with_graph(definitions)
    return body


def _with_graph(definitions: dict[str, Any]) -> None:
    """The form of an operator graph, which is loaded where there is one alone."""
    from .schema_families import FAMILIES
    from .schema_graph import GraphText

    forms = [GraphText, *FAMILIES.values()]
    for form in forms:
        graph = form.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        definitions.update(graph.pop("$defs", {}))
        definitions[form.__name__] = graph
    definitions["Model"]["properties"]["graph"]["anyOf"][:1] = [{"$ref": f"#/$defs/{form.__name__}"} for form in forms]
    operand = definitions.pop("GraphOperand")
    words: list[dict[str, Any]] = [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 8}]
    definitions["GraphOperand"] = {"anyOf": [operand, *words]}


__all__ = ["LoadedProposal", "Section", "load_proposal", "parse_proposal", "schema", "validate", "validate_part"]
