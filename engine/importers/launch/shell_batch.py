"""What a batch system's directives in a script say: `#SBATCH --nodes=24`, and the variables that Slurm sets from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_SBATCH: Final = re.compile(r"^#(?:SBATCH|PBS|FLUX|BSUB)[ \t]+(.*)$", re.MULTILINE)
_OPTION: Final = re.compile(r"(--?[A-Za-z][\w-]*)(?:=|[ \t]*)([^\s#]*)")


def directives(text: str) -> dict[str, tuple[str, int]]:
    """The options of a script's directives: value and offset of each."""
    found: dict[str, tuple[str, int]] = {}
    for match in _SBATCH.finditer(text):
        for option in _OPTION.finditer(match[1].partition(" #")[0]):
            found[option[1]] = (option[2], match.start(1) + option.start(2))
    return found


def slurm_variables(given: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """The variables that Slurm sets from its directives (sbatch(1), 'OUTPUT ENVIRONMENT VARIABLES')."""
    found: dict[str, tuple[str, int]] = {}

    def keep(options: Iterable[str], names: Iterable[str], pattern: str = r"(\d+)") -> None:
        for option in options:
            value, offset = given.get(option, ("", 0))
            match = re.fullmatch(pattern, value)
            if match:
                found.update(dict.fromkeys(names, (match[1], offset)))

    keep(("--nodes", "-N"), ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"))
    keep(("--ntasks-per-node",), ("SLURM_NTASKS_PER_NODE",))
    keep(("--gres",), ("SLURM_GPUS_ON_NODE",), r"gpu(?::\w+)?:(\d+)")
    keep(("--gpus-per-node", "-G"), ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), r"(?:\w+:)?(\d+)")
    keep(("--ntasks", "-n"), ("SLURM_NTASKS", "SLURM_NPROCS"))
    if "SLURM_NTASKS" not in found and "SLURM_NNODES" in found and "SLURM_NTASKS_PER_NODE" in found:
        total = int(found["SLURM_NNODES"][0]) * int(found["SLURM_NTASKS_PER_NODE"][0])
        for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
            found[name] = (str(total), found["SLURM_NNODES"][1])
    return found
