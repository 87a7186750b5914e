"""Promises of the reader of shell scripts: what it follows, what it leaves open, that it runs nothing and always ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.importers.launch.shell_run import Walk, walk
from planproof.importers.launch.shell_text import NotANumber, arithmetic, reason, shown
from planproof.importers.launch.shell_words import ShellError


def words(script: str, **given: str) -> list[list[str]]:
    return [[shown(word) for word in one.words] for one in walk(script, given).commands]


def last(script: str, **given: str) -> str:
    return " ".join(words(script, **given)[-1])


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("A=1; run $A", "run 1"),
        ("A=1\nB=${A}2\nrun $B", "run 12"),
        ("run \\\n  a \\\n  b # not c", "run a b"),
        ("A='x y'; run $A \"$A\"", "run x y x y"),
        ("run ${A:-7} ${B:=8} $B", "run 7 8 8"),
        ("A=5; run ${A:+set} ${B:+unset}", "run set"),
        ("run $((2 * (3 + 4) % 5)) $((2**10)) $((7 / 2))", "run 4 1024 3"),
        ("A=8; B=4; run $((A*B)) $(( $A / $B ))", "run 32 2"),
        ("A=(a 'b c' d); A+=(e); run ${A[@]} ${#A[@]} ${A[1]}", "run a b c d e 4 b c"),
        ("A='--x 1'; A+=' --y 2'; run $A", "run --x 1 --y 2"),
        ("A=dir/name.yaml; run ${A##*/} ${A%.yaml} ${A#dir/} ${A/name/other}", "run name.yaml dir/name name.yaml dir/other.yaml"),
        ("A=Ab; run ${A,,} ${A^^} ${A:0:1}", "run ab AB A"),
        ("if [ 1 -eq 1 ]; then A=yes; else A=no; fi; run $A", "run yes"),
        ("X=b; case $X in a) A=1;; b|c) A=2;; *) A=3;; esac; run $A", "run 2"),
        ("[ -z \"$N\" ] || run a; M=; [ -z \"$M\" ] && A=2; run $A", "run 2"),
        ("f() { A=$1; run $A $2; }; f 3 4", "run 3 4"),
        ("B=2; C=\"run $B \\$C\"; bash -c \"$C\"", "run 2 run 2 $C"),
        ("A=1; (A=2); run $A", "run 1"),
        ("A=$(echo 5); B=`expr 4 \\* 8`; run $A $B $(echo \"$A * 2\" | bc)", "run 5 32 10"),
        ("for X in only; do run $X; done", "run only"),
        ("#SBATCH --nodes=3\n#SBATCH --gres=gpu:4\nrun $SLURM_NNODES $SLURM_GPUS_ON_NODE", "run 3 4"),
        ("let A=3*4; run $A; ", "run 12"),
        ("((A = 3 + 4)); run $A", "run 7"),
        ("set -- x y; run $2 $# $@", "run y 2 x y"),
        ("run a > out.txt 2>&1 | tee log", "tee log"),
        ("while true; do run a; break; done", "run a"),
    ],
)
def test_a_script_is_followed(script: str, wanted: str) -> None:
    assert last(script) == wanted


def why(script: str, **given: str) -> str:
    return next((reason(word) for word in walk(script, given).commands[-1].words if reason(word)), "") or ""


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("run $A", "'A' is not set"),
        ("run $1", "called with"),
        ("A=$(nproc); run $A", "where the script runs"),
        ("for X in 1 2 4; do run $X; done", "takes 1, 2, 4"),
        ("if [ $HOST = a ]; then A=1; else A=2; fi; run $A", "is not decided"),
        ("run $((A * 2))", "'A' is not set"),
        ("run $((8 / 0))", "division by zero"),
        ("read A; run $A", "fills it where the script runs"),
        ("A=text; run $((A + 1))", "no whole number"),
    ],
)
def test_what_the_script_does_not_decide_is_open_with_the_reason(script: str, word: str) -> None:
    assert word in why(script)


def test_a_given_variable_decides_what_the_script_leaves_open() -> None:
    assert last("run $TP", TP="8") == "run 8"
    assert last("TP=2; run $TP", TP="8") == "run 8"
    assert last("for X in 1 2; do run $X; done", X="2") == "run 2"
    assert last("run $1 $2", **{"2": "b", "1": "a"}) == "run a b"


def test_branches_that_agree_leave_nothing_open() -> None:
    assert last("if unknown; then A=1; else A=1; fi; run $A") == "run 1"
    assert last("A=1; if unknown; then exit 1; fi; run $A") == "run 1"


def test_a_here_document_is_kept_with_what_it_expands_to() -> None:
    found: Walk = walk("N=4\ncat <<EOT > out.json\n{\"a\": $N, \"b\": \"\\$N\"}\nEOT\ncat <<'EOT' > raw.json\n$N\nEOT\nrun")
    assert shown(found.files["out.json"]) == '{"a": 4, "b": "$N"}\n'
    assert shown(found.files["raw.json"]) == "$N\n"


@pytest.mark.parametrize(
    "script",
    ["run 'open", "if true; then run", "run \"open", "cat <<EOT\nnever closed", "for x in a; do run", "A=(1 2", "run $(echo",
     "case a in"],
)
def test_what_is_not_closed_is_an_error_with_its_place(script: str) -> None:
    with pytest.raises(ShellError) as caught:
        walk(script)
    assert 0 <= caught.value.offset <= len(script)


@pytest.mark.parametrize(
    "script",
    ["touch {file}", "$(touch {file})", "`touch {file}`", "A=$(touch {file}); echo $A", "bash -c 'touch {file}'",
     "eval touch {file}",
     "echo x > {file}",
     "cat <<EOT > {file}\nx\nEOT", "source {file}",
     "[ $(touch {file}) ] && true", "python -c \"open('{file}','w')\""],
)  # fmt: skip
def test_nothing_is_run_and_nothing_written(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr("os.system", never)
    file = tmp_path / "made"
    walk(script.replace("{file}", str(file)))
    assert not file.exists()


PIECES = st.sampled_from(
    ["A=1", "$A", "${A:-", "}", "$((", "))", "$(", ")", "`", "'", '"', "if ", "then ", "fi", "for x in ", "do ", "done", "case ",
     "esac", "\n", " ", ";", "&&", "||", "|", "<<EOT\n", "EOT\n", "\\", "[[", "]]", "{", "(", "#", "run --x 1", "A+=(", "a=$a$a",
     "f() {", "f", "while "]
)  # fmt: skip


@given(st.lists(PIECES, max_size=60))
def test_any_text_ends_in_a_walk_or_in_an_error_with_a_place(pieces: list[str]) -> None:
    script = "".join(pieces)
    try:
        walk(script)
    except ShellError as error:
        assert 0 <= error.offset <= len(script)


@given(st.text(max_size=200))
def test_any_characters_end_in_a_walk_or_in_an_error(text: str) -> None:
    try:
        walk(text)
    except ShellError as error:
        assert 0 <= error.offset <= len(text)


def test_what_grows_without_end_ends() -> None:
    doubling = "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 60 + "run $A"
    assert "longer than" in why(doubling)
    assert words("f() { f; f; }\nf\nrun a")[-1] == ["run", "a"]
    nested = "bash -c " * 40 + "run"
    walk(nested)


NUMBERS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@given(NUMBERS)
def test_arithmetic_is_that_of_whole_numbers(expression: str) -> None:
    value = eval(expression)  # made of digits, brackets and + - * above
    try:
        assert arithmetic(expression, lambda _: 0) == value
    except NotANumber:
        assert abs(value) >= 2**63 or any(len(part) > 18 for part in expression.split())
