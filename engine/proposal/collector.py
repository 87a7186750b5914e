"""Collects, while a case is resolved, what was missing, assumed, read and contradictory. One collector a case."""

from __future__ import annotations

import posixpath
from dataclasses import field, replace

from ..errors import Place, PlanproofError
from ..frozen import dataclass
from ..plan import Role
from ..quantity import Dimension, Grade, Provenance, Quantity
from .case import Assumed, Contradiction, Evidence, InputFile, LeftOut, Missing
from .load import LoadedProposal
from .references import read_reference
from .stated import Stated


@dataclass(slots=True)
class Collector:
    """What is found on the way. Lists only grow; the case freezes them."""

    loaded: LoadedProposal
    missing: list[Missing] = field(default_factory=list)
    assumed: list[Assumed] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    files: list[InputFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: Referenced files as the proposal names them.
    references: set[str] = field(default_factory=set)

    def lacks(self, item: str, path: str, what: str, how: str, plan: str | None = None, role: Role | None = None) -> None:
        """Note that `item` is missing; `path` is where it would stand."""
        self.missing.append(Missing(item, path, what, how, plan, role))

    def assume(self, item: str, path: str, value: object, why: str) -> None:
        """Note that a documented default was used."""
        one = Assumed(item, path, str(value), why)
        if one not in self.assumed:
            self.assumed.append(one)

    def contradicts(self, code: str, path: str, detail: str, plan: str | None = None) -> None:
        """Note that two statements of the proposal cannot both hold."""
        self.contradictions.append(Contradiction(code, path, detail, plan))

    def witness(self, item: str, name: str, path: str, quantity: Quantity) -> Quantity:
        """Keep a quantity about the world as evidence, and return it."""
        self.evidence.append(Evidence(item, name, path, quantity))
        return quantity

    def quantity(
        self,
        stated: Stated,
        path: str,
        *,
        grade: str | None = None,
        source: str | None = None,
        date: str | None = None,
    ) -> Quantity:
        """A stated quantity with its place. A bare one takes the grade, source and date of its section, else `assumed`."""
        place = self.loaded.place(path)
        provenance = Provenance(
            grade=stated.grade or (Grade(grade) if grade else Grade.ASSUMED),
            source=stated.source or source or "",
            file=stated.file or place.file,
            line=None if stated.file else place.line,
            date=stated.date or date,
            pointer=path,
        )
        return Quantity(stated.value, stated.dimension, provenance)

    def default(self, value: float, dimension: Dimension, path: str, source: str) -> Quantity:
        """A documented default as a quantity of grade `assumed`."""
        return Quantity(value, dimension, Provenance(Grade.ASSUMED, source, pointer=path))

    def read(self, reference: str, path: str, kind: str) -> tuple[bytes, str, str]:
        """The bytes of a referenced file, its name as referenced and its digest; it becomes one of the case's inputs."""
        found = read_reference(
            reference, proposal=self.loaded.path, root=self.loaded.root, place=self.loaded.place(path)
        )
        self.references.add(found.name)
        if all(known.path != found.path_in_repository for known in self.files):
            self.files.append(InputFile(found.path_in_repository, found.sha256, kind))
        return found.raw, found.name, found.sha256

    def located(self, error: PlanproofError) -> PlanproofError:
        """The error with a file that the proposal names as it is seen from where the proposal's own path is."""
        file = error.place.file
        if file in self.references:
            beside = posixpath.join(posixpath.dirname(self.loaded.document.name), str(file))
            error.place = replace(error.place, file=posixpath.normpath(beside))
        return error

    def single(self, section: str, key: str) -> bool:
        """Whether `key` of a section holds one mapping rather than a list of them."""
        data: object = self.loaded.document.data
        for part in (*section.strip("/").split("/"), key):
            data = data.get(part) if isinstance(data, dict) else None
        return isinstance(data, dict)

    def place(self, path: str) -> Place:
        """Where the value at `path` stands."""
        return self.loaded.place(path)
