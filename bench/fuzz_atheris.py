"""Coverage-guided fuzzing of one reader with atheris, for those who have it: it is a tool of development and no dependency.

    pip install atheris
    python bench/fuzz_atheris.py READER [CORPUS_DIR] [-runs=N] [-seed=S] [-max_len=BYTES] [-timeout=SECONDS]

READER is a key of `READERS` in `tests/fuzz/fuzz_inputs.py`. Bytes that libFuzzer mutates go to the reader as they are;
CORPUS_DIR is filled with 200 drawn inputs where it is empty, so that mutation starts from files that read. With the same
corpus, `-runs` and `-seed` a run is the same again. What it finds (`crash-*`, `timeout-*`) goes to
`tests/fuzz/corpus/READER/`, where a test keeps it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "fuzz"))


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris (Linux, and a CPython that it has a wheel for)")
    with atheris.instrument_imports(include=["planproof"]):
        from fuzz_inputs import ALLOWED, READERS, drawn
    if len(sys.argv) < 2 or sys.argv[1] not in READERS:
        sys.exit(f"name a reader: {', '.join(READERS)}")
    reader = sys.argv.pop(1)
    call = READERS[reader][1]
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if folders and not any(folders[0].glob("*")):
        folders[0].mkdir(parents=True, exist_ok=True)
        for k in range(200):
            (folders[0] / f"drawn-{k:03}").write_bytes(drawn(Random(k), reader))

    def one(raw: bytes) -> None:
        try:
            call(raw)
        except ALLOWED:
            return

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
