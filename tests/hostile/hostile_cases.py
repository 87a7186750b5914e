"""100 and more proposals of somebody who means harm: what is attempted, the bytes, the exit status and a part of what is said.

`BASE` is judged without an error. A case is an edit of it, or bytes of its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BASE = """\
planproof: 1
proposal: {title: small, date: 2026-11-02, objective: step_time, run_length: {steps: 20000}}
model:
  transformer: {family: llama, layers: 8, hidden: 1024, heads: 8, kv_heads: 8, ffn: 4096, vocabulary: 32000}
workload:
  sequence_length: 2048
  global_batch: 64 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {count: 2, type: dgx_h100}
  fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}, oversubscription: 1.0}
  contention: none
profile: none
layouts: {allow: [data, tensor], max_axes: 2}
plans:
  - {name: reference, role: reference, uniform: {data: 16}, zero: 1, microbatch: 1}
  - {name: submitted, role: submitted, uniform: {data: 8, tensor: 2}, zero: 1, microbatch: 1}
planning_cost: {profiling: 64 device-hours}
"""


class Case(NamedTuple):
    """`status` is that of a lint; `said` a part of the error's message, or the id of a rule that fires."""

    name: str
    attempt: str
    raw: bytes
    status: int
    said: str


def edited(old: str, new: str) -> bytes:
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new).encode()


def added(text: str) -> bytes:
    return (BASE + text + "\n").encode()


def transformer(key: str, value: str) -> bytes:
    changed, count = re.subn(rf"\b{key}: [^,}}]+", f"{key}: {value}", BASE, count=1)
    assert count == 1
    return changed.encode()


def plan(text: str) -> bytes:
    return edited("uniform: {data: 8, tensor: 2}, zero: 1, microbatch: 1}", text + "}")


def _bytes() -> list[Case]:
    """The bytes of the file."""
    return [
        Case("empty", "no content", b"", 2, "empty"),
        Case("white", "white space alone", b" \n\t\n", 2, "empty"),
        Case("nul", "a NUL byte", BASE.encode().replace(b"small", b"sm\x00ll"), 2, "control character"),
        Case("escape", "a terminal escape in the bytes",
             BASE.encode().replace(b"small", b"\x1b]0;owned\x07"), 2, "control character"),
        Case("c1", "a C1 control sequence", BASE.replace("small", "\x9b31m").encode(), 2, "control character"),
        Case("utf16", "UTF-16 with a mark", BASE.encode("utf-16"), 2, "UTF-16"),
        Case("utf32", "UTF-32 with a mark", BASE.encode("utf-32"), 2, "UTF-32"),
        Case("latin1", "bytes that are not UTF-8", BASE.encode().replace(b"small", b"sm\xe4ll"), 2, "not UTF-8"),
        Case("overlong", "an overlong encoding of '/'", BASE.encode().replace(b"small", b"\xc0\xaf"), 2, "not UTF-8"),
        Case("surrogate", "half of a surrogate pair", BASE.encode().replace(b"small", b"\xed\xa0\x80"), 2, "not UTF-8"),
        Case("mark-inside", "a byte order mark inside", BASE.replace("small", "a\ufeffb").encode(), 2, "control character"),
        Case("gzip", "a compressed file", b"\x1f\x8b\x08\x00" + bytes(60), 2, "not UTF-8"),
        Case("elf", "a program", b"\x7fELF\x02\x01\x01" + bytes(60), 2, "control character"),
        Case("big", "a file over the limit", BASE.encode() + b"#" * 1_100_000, 2, "limit is 1,048,576"),
        Case("long-line", "one scalar of 70,000 characters", edited("small", '"' + "a" * 70_000 + '"'), 2, "limit"),
    ]


def _documents() -> list[Case]:
    """YAML and JSON."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)
    )
    return [
        Case("bomb", "a billion laughs by aliases", ("planproof: 1\n" + bomb).encode(), 2, "limit"),
        Case("self-alias", "an alias inside its own anchor", b"planproof: 1\nmodel: &a {transformer: *a}\n", 2, "alias"),
        Case("merge", "a merge key", b"planproof: 1\nx: &a {y: 1}\nmodel: {<<: *a}\n", 2, "merge"),
        Case("python-tag", "a Python object by its tag", edited("small", "!!python/object/apply:os.system ['true']"), 2, "tag"),
        Case("python-name", "a Python name by its tag", edited("small", "!!python/name:os.system"), 2, "tag"),
        Case("own-tag", "a tag of the author's", edited("small", "!include /etc/passwd"), 2, "tag"),
        Case("binary-tag", "binary data by its tag", edited("small", "!!binary aGVsbG8="), 2, "tag"),
        Case("set-tag", "a set by its tag", edited("small", "!!set {a, b}"), 2, "tag"),
        Case("deep-list", "40,000 open brackets", b"planproof: 1\nmodel: " + b"[" * 40_000, 2, ""),
        Case("deep-map", "500 nested mappings", b"planproof: 1\nmodel: " + b"{a: " * 500 + b"1" + b"}" * 500, 2, "deep"),
        Case("deep-json", "100,000 nested lists of JSON", b'{"planproof": 1, "model": ' + b"[" * 100_000, 2, ""),
        Case("wide", "200,000 entries", b"planproof: 1\nx: [" + b"1," * 200_000 + b"1]\n", 2, "limit"),
        Case("duplicate", "a key twice, the second to win", BASE.encode() + b"planproof: 1\n", 2, "twice"),
        Case("duplicate-inner", "an inner key twice", edited("count: 2,", "count: 2, count: 200,"), 2, "twice"),
        Case("two-documents", "a second document", BASE.encode() + b"---\nplanproof: 1\n", 2, "document"),
        Case("complex-key", "a mapping as key", b"planproof: 1\n? {a: 1}\n: 2\n", 2, "key"),
        Case("number-key", "a number as key", b"planproof: 1\n1: 2\n", 2, "key"),
        Case("null-key", "nothing as key", b"planproof: 1\n~: 2\n", 2, "key"),
        Case("directive", "a YAML directive of another version", b"%YAML 9.9\n---\n" + BASE.encode(), 2, ""),
        Case("tab", "a tab as indent", b"planproof: 1\nmodel:\n\ttransformer: {}\n", 2, "tab"),
        Case("open-quote", "a quote that never closes", edited("small", '"small'), 2, ""),
        Case("json-nan", "NaN in JSON", b'{"planproof": 1, "workload": {"sequence_length": NaN}}', 2, "NaN"),
        Case("json-comment", "a comment in JSON", b'{"planproof": 1 /* x */}', 2, ""),
        Case("json-trailing", "text behind JSON", b'{"planproof": 1} planproof: 1', 2, ""),
        Case("list", "a list in place of a mapping", b"- planproof: 1\n", 2, "mapping of keys"),
        Case("scalar", "a word in place of a mapping", b"planproof\n", 2, "mapping of keys"),
        Case("version-2", "a version that does not exist", edited("planproof: 1", "planproof: 2"), 2, "version"),
        Case("version-true", "true, which is 1 in Python", edited("planproof: 1", "planproof: true"), 2, "version"),
        Case("version-text", "the version as text", edited("planproof: 1", "planproof: '1'"), 2, "version"),
        Case("proto", "a key that names an attribute", added("__class__: {x: 1}"), 2, "__class__"),
        Case("unknown", "a key that is a typing slip", edited("contention:", "contension:"), 2, "did you mean 'contention'"),
    ]


def _numbers() -> list[Case]:
    """Figures that are no figures of a model, a workload or a cluster."""
    cases = [
        Case(f"layers-{name}", f"layers: {value[:20]}", transformer("layers", value), 2, said)
        for name, value, said in (
            ("nan", ".nan", "finite"), ("inf", ".inf", "finite"), ("minus-inf", "-.inf", "finite"),
            ("negative", "-8", "too small"), ("zero", "0", "too small"), ("huge", "1" + "0" * 30, "too large"),
            ("endless", "9" * 5000, "digits"), ("fraction", "8.5", "whole number"), ("text", "eight", "whole number"),
            ("true", "true", "whole number"), ("sexagesimal", "1:30", "whole number"), ("underscore", "1_000", "whole number"),
            ("list", "[8]", "whole number"), ("exponent", "1e400", "double-precision"),
        )
    ]  # fmt: skip
    cases += [
        Case("layers-octal", "15 written so that YAML 1.1 and 1.2 differ", transformer("layers", "017"), 2, "layers"),
        Case("layers-none", "silence in place of a figure", transformer("layers", "~"), 1, "EVI002"),
        Case("hidden-odd", "a width that its heads do not divide", transformer("hidden", "1023"), 1, "EVI002"),
        Case("heads-over", "more heads than columns", transformer("heads", "4096"), 1, "EVI002"),
        Case("kv-over", "more key heads than heads", transformer("kv_heads", "64"), 1, "SHP030"),
        Case("hidden-huge", "a model of 10^21 parameters", transformer("hidden", "1000000"), 1, "MEM001"),
        Case("sequence-huge", "a sequence of 10^9 tokens",
             edited("sequence_length: 2048", "sequence_length: 1000000000"), 2, "too large"),
        Case("batch-huge", "a batch of 10^9 sequences", edited("64 sequences", "1000000000 sequences"), 0, ""),
        Case("batch-unit", "a batch of metres", edited("64 sequences", "64 metres"), 2, "global_batch"),
        Case("batch-bare", "a batch without its unit", edited("64 sequences", "64"), 2, "global_batch"),
        Case("nodes-huge", "10^9 nodes", edited("count: 2,", "count: 1000000000,"), 0, "SHP002"),
        Case("nodes-over", "10^10 nodes", edited("count: 2,", "count: 10000000000,"), 2, "count"),
        Case("nodes-zero", "no nodes", edited("count: 2,", "count: 0,"), 2, "count"),
        Case("rate-negative", "a negative rate", edited("400 Gbit/s", "-400 Gbit/s"), 2, "bandwidth"),
        Case("rate-zero", "a rate of nothing", edited("400 Gbit/s", "0 Gbit/s"), 2, "bandwidth"),
        Case("rate-unit", "a rate without time", edited("400 Gbit/s", "400 GB"), 2, "bandwidth"),
        Case("rate-inf", "an infinite rate", edited("400 Gbit/s", ".inf GB/s"), 2, "bandwidth"),
        Case("rate-fast", "cards faster than any link that exists", edited("400 Gbit/s", "400000 Gbit/s"), 0, "MAP021"),
        Case("rate-evil", "a unit made to slow a pattern", edited("400 Gbit/s", "1" + " " * 3000 + "x"), 2, "bandwidth"),
        Case("over-nan", "an over-subscription of NaN", edited("oversubscription: 1.0", "oversubscription: .nan"), 2, "finite"),
        Case("over-below", "switches that make bandwidth",
             edited("oversubscription: 1.0", "oversubscription: 0.01"), 2, "oversub"),
        Case("nics-huge", "10^9 cards a node", edited("nics: {count: 8", "nics: {count: 1000000000"), 2, "at most 1024"),
        Case("run-endless", "a run of 10^9 steps", edited("steps: 20000", "steps: 1000000000"), 0, ""),
        Case("date-wrong", "a day that does not exist", edited("2026-11-02", "2026-02-30"), 2, "date"),
        Case("date-far", "a date of another era", edited("2026-11-02", "99999-01-01"), 2, "date"),
    ]
    return cases


def _plans() -> list[Case]:
    """Plans that nobody can run."""
    return [
        Case("degree-zero", "a degree of 0", plan("uniform: {data: 0, tensor: 2}"), 2, "data"),
        Case("degree-negative", "a negative degree", plan("uniform: {data: -8, tensor: -2}"), 2, "data"),
        Case("degree-huge", "10^6 in each direction",
             plan("uniform: {data: 1000000, tensor: 1000000, pipeline: 1000000}"), 1, "SHP001"),
        Case("stages-many", "100,000 stages by a repeat", plan("stages: [{layers: [0, 0], repeat: 100000, devices: 1}]"), 2, ""),
        Case("stages-gap", "layers that nobody holds", plan("stages: [{layers: [0, 2], devices: 16}]"), 1, "SHP021"),
        Case("stages-twice", "a layer held twice",
             plan("stages: [{layers: [0, 7], devices: 8}, {layers: [7, 7], devices: 8}]"), 1, "SHP022"),
        Case("stages-back", "layers from 7 to 0", plan("stages: [{layers: [7, 0], devices: 16}]"), 1, "INT003"),
        Case("stages-none", "no stages", plan("stages: []"), 1, "EVI023"),
        Case("microbatch-huge", "10^9 sequences at once",
             plan("uniform: {data: 8, tensor: 2}, microbatch: 1000000000"), 2, "too large"),
        Case("microbatch-zero", "no sequence at once", plan("uniform: {data: 8, tensor: 2}, microbatch: 0"), 2, "microbatch"),
        Case("zero-7", "a ZeRO stage that does not exist",
             plan("uniform: {data: 8, tensor: 2}, zero: 7, microbatch: 1"), 2, "zero"),
        Case("schedule", "a schedule that does not exist",
             plan("uniform: {data: 16}, schedule: magic, microbatch: 1"), 2, "schedule"),
        Case("interleave", "10^6 chunks", plan("uniform: {data: 16}, interleave: 1000000, microbatch: 1"), 2, "at most 1024"),
        Case("order-twice", "an axis twice in the order",
             plan("uniform: {data: 16}, order: [data, data], microbatch: 1"), 1, "SHP032"),
        Case("both", "uniform and stages at once",
             plan("uniform: {data: 16}, stages: [{layers: [0, 7], devices: 16}], microbatch: 1"), 1, "INT003"),
        Case("same-name", "two plans of one name", BASE.replace("name: submitted", "name: reference").encode(), 1, "INT003"),
        Case("many-plans", "5,000 plans", edited("planning_cost", "".join(
            f"  - {{name: p{k}, role: candidate, uniform: {{data: 16}}, microbatch: 1}}\n" for k in range(5000)) + "planning_cost"
        ), 2, "plans"),
        Case("too-many-devices", "more devices than there are",
             plan("uniform: {data: 1024, tensor: 2}, microbatch: 1"), 1, "SHP004"),
        Case("accumulation", "an accumulation that contradicts the batch",
             plan("uniform: {data: 8, tensor: 2}, microbatch: 1, accumulation: 7"), 1, "SHP005"),
    ]


def _references() -> list[Case]:
    """Files outside the repository, and things that are no files."""
    profile = "profile: none"
    cases = []
    for name, path, said in (
        ("passwd", "/etc/passwd", "absolute"), ("dots", "../../../../etc/passwd", "leaves the repository"),
        ("dots-inside", "a/../../../etc/passwd", "leaves the repository"), ("home", "~/.ssh/id_rsa", "'~'"),
        ("url", "https://example.org/x.csv", "URL"), ("file-url", "file:///etc/passwd", "URL"),
        ("null-device", "/dev/null", "absolute"), ("proc", "/proc/self/environ", "absolute"),
        ("backslash", "..\\\\secrets", "backslash"), ("drive", "C:/secrets.csv", "drive"),
        ("folder", "sub/", "directory"), ("git", ".git/config", ""), ("empty", "", "names no file"),
        ("long", "a" * 2000, "characters"), ("missing", "nothing.csv", "does not exist"),
        ("newline", "a\\nb", "control character"),
    ):  # fmt: skip
        text = f'profile: {{file: "{path}", date: 2026-11-01, source: x}}'
        cases.append(Case(f"reference-{name}", f"a profile at {path[:30]}", edited(profile, text), 2, said))
    return cases


#: Texts that are harmless to judge and would harm where they are shown: the verdict is as without them.
TEXTS = {
    "markdown-image": "![x](https://example.org/beacon.png)",
    "markdown-link": "[click](javascript:alert(1))",
    "html-script": "<script>alert(1)</script>",
    "html-image": "<img src=x onerror=alert(1)>",
    "html-comment": "<!-- hidden -->",
    "workflow": "::error file=/etc/passwd::owned",
    "workflow-stop": "::stop-commands::token",
    "workflow-old": "##[set-env name=PATH]/tmp",
    "fence": "```\\n# owned",
    "mermaid": 'x"] --> y; click y "javascript:alert(1)"',
    "svg": "</text><script>alert(1)</script>",
    "cdata": "]]><evil/>",
    "entity": "&lol; &#x3C;b&#x3E;",
    "formula": "=HYPERLINK(1)",
    "template": "{{ ''.__class__.__mro__ }}",
    "format": "{0.__class__} {rule.__init__.__globals__}",
    "shell": "$(touch owned); `touch owned`",
    "bidi": "abc\\u202egpj.exe",
    "zero-width": "a\\u200bb",
    "newline": "one\\ntwo",
    "carriage": "safe\\roverwritten",
    "escape": "\\e[2J\\e[31mred",
    "bell": "\\a",
    "long": "x" * 3900,
    "percent": "%0A::error::owned %25",
}


def _texts() -> list[Case]:
    cases = []
    for name, text in TEXTS.items():
        forbidden = name in ("escape", "bell")
        shown = text.replace('"', '\\"')
        cases.append(
            Case(f"text-{name}", f"a title of {text[:40]}", edited("small", f'"{shown}"'), 2 if forbidden else 0,
                 "control character" if forbidden else "")
        )  # fmt: skip
    return cases


def _rules() -> list[Case]:
    """Attempts to silence the judge, or to have figures believed."""
    return [
        Case("silence-bare", "a suppression without reason, owner and end", added("# planproof: ignore EVI036"), 2, "reason"),
        Case("silence-all", "a suppression of everything",
             added('# planproof: ignore * reason="x" owner=me until=2099-01-01'), 2, ""),
        Case("silence-form", "a suppression in another tool's form", added("# planproof: ignore[EVI036]"), 2, "ignore"),
        Case("silence-late", "a suppression with an end that is no day",
             added('# planproof: ignore EVI036 reason="x" owner=me until=2026-99-99'), 2, "2026-99-99"),
        Case("silence-many", "more suppressions than exceptions",
             BASE.encode() + b'# planproof: ignore EVI036 reason="x" owner=me until=2099-01-01\n' * 300, 2, "may have 200"),
        Case("policy-weak", "a policy that asks for less", added("policy: {fail_on: never}"), 2, "policy"),
        Case("grade-unknown", "a grade of one's own",
             edited("bandwidth: 400 Gbit/s", "bandwidth: {value: 400 Gbit/s, grade: certain}"), 2, "grade"),
        Case("memory-claimed", "a device of 10 TiB",
             edited("type: dgx_h100}", "type: dgx_h100, device_memory: 10 TiB}"), 0, "EVI043"),
        Case("memory-none", "a device of 1 KiB", edited("type: dgx_h100}", "type: dgx_h100, device_memory: 1 KiB}"), 2, "memory"),
        Case("type-unknown", "a node that nobody knows", edited("type: dgx_h100", "type: dgx_z900"), 2, "dgx_z900"),
        Case("type-path", "a path as node type", edited("type: dgx_h100", "type: ../../etc/passwd"), 2, ""),
        Case("contention-silent", "silence on who shares the fabric", edited("  contention: none\n", ""), 1, "EVI015"),
        Case("layouts-nothing", "a space without axes", edited("allow: [data, tensor]", "allow: []"), 0, "SHP038"),
        Case("description", "a description made to slow a pattern",
             edited("  contention: none", "  description: '" + "1 x " * 240 + "'\n  contention: none"), 2, "description"),
        Case("activation", "an activation kernel that does not exist",
             edited("attention: flash", "attention: magic"), 2, "attention"),
        Case("optimizer", "an optimizer that does not exist", edited("optimizer: adamw", "optimizer: exec"), 1, "EVI007"),
        Case("family", "a family that does not exist", transformer("family", "__import__"), 2, "family"),
    ]


CASES = (*_bytes(), *_documents(), *_numbers(), *_plans(), *_references(), *_texts(), *_rules())
