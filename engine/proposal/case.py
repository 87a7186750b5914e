"""A case: the proposal made whole, as far as it can be. What could not be resolved is listed, never filled in silently.

Vocabulary: a *case* holds the resolved model, workload, cluster, plans and profile, each None where something needed is not
stated; `missing` says what and where; `assumed` lists documented defaults that were used; `evidence` lists every quantity
about the world with its grade. Cases know no rules: what follows from a gap is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

from ..cluster import Cluster
from ..frozen import dataclass
from ..hardware import NodeSheet
from ..model import Transformer, Workload
from ..plan import Mesh, Plan, Recompute, Role
from ..quantity import Quantity
from .load import LoadedProposal
from .profile import MeasuredProfile
from .schema import Layouts, PlanChoice

if TYPE_CHECKING:
    from ..importers.nvidia_topo import TopologyMatrix
    from .resolve_graph import GraphCase


@dataclass(frozen=True, slots=True)
class Missing:
    """Something a review needs that is not there. `what` names the user's own key; `how` says where it is obtained."""

    item: str
    path: str
    what: str
    how: str
    plan: str | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Assumed:
    """A documented default that was used where the proposal says nothing."""

    item: str
    path: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements of the proposal that cannot both hold: a code, the place of the later one, and both in words."""

    code: str
    path: str
    detail: str
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quantity about the world, by the name of its evidence item. `text` is for people; `quantity` None for a mere word."""

    item: str
    name: str
    path: str
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Keys of the model's configuration that nothing was made of. `why`: what the figures lack; "" where not known."""

    file: str
    keys: tuple[str, ...]
    why: str = ""
    #: Sequences of so many tokens or fewer lack nothing.
    up_to: int | None = None


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was read: its path in the repository and its digest."""

    path: str
    sha256: str
    kind: str


@dataclass(frozen=True, slots=True)
class StatedStage:
    """A stage as stated, after `repeat`: layers inclusive; `devices` None where neither devices nor nodes are given."""

    first: int
    last: int
    mesh: Mesh
    devices: int | None
    embedding: bool
    head: bool
    recompute: Recompute | None
    layouts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    path: str


@dataclass(frozen=True, slots=True)
class PlanCase:
    """One stated plan. `plan` is None where it cannot be built (a gap, or degrees that do not divide the layers)."""

    name: str
    role: Role
    path: str
    stated: PlanChoice
    mesh: Mesh
    pipeline: int
    stages: tuple[StatedStage, ...] | None
    accumulation: int | None
    plan: Plan | None
    #: False where the data degree is the rest of a number of devices that is not known: the mesh then has 1 in its place.
    data_known: bool = True


@dataclass(frozen=True, slots=True)
class NodeCase:
    """One kind of node as far as it is stated: count and devices are None where neither the proposal nor a sheet says."""

    name: str
    path: str
    count: int | None
    devices: int | None
    device: str | None
    memory: Quantity | None
    nics: tuple[int, Quantity] | None
    #: The data sheet, where there is one; of a node described by device and count, what its description amounts to.
    sheet: NodeSheet | None = None
    #: What the device's data sheet says, where the proposal states another capacity.
    sheet_memory: Quantity | None = None


@dataclass(frozen=True, slots=True)
class LinkCase:
    """One tier of links as far as it is stated. `bandwidth` is one device's, per direction, after sharing."""

    name: str
    tier: str
    medium: str
    span: int
    path: str
    bandwidth: Quantity | None
    latency: Quantity | None
    nics: int | None = None
    nic_bandwidth: Quantity | None = None
    layout: str | None = None
    oversubscription: float | None = None
    #: Names of the nodes that a fabric joins; empty for all.
    joins: tuple[str, ...] = ()
    #: Whether its switches reduce in flight.
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class TopologyFile:
    """A measured topology of one node, as far as it was read."""

    path: str
    devices: int
    islands: int
    largest_island: int
    gaps: int
    sha256: str
    #: The matrix itself, as the importer believes it.
    matrix: TopologyMatrix | None = None


@dataclass(frozen=True, slots=True)
class ClusterCase:
    """What is known of the cluster before it can be priced; `cluster` of the case is None until enough is known."""

    nodes: tuple[NodeCase, ...]
    links: tuple[LinkCase, ...]
    bare_devices: int | None
    devices: int | None
    #: Parts that no stated fabric joins; 1 where connected, None where there is nothing to join.
    parts: int | None
    topology: TopologyFile | None = None
    #: The device type of a bare count, where its data sheet is known.
    bare_device: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a review starts from."""

    loaded: LoadedProposal
    model: Transformer | None
    workload: Workload | None
    cluster: Cluster | None
    described: ClusterCase
    plans: tuple[PlanCase, ...]
    profile: MeasuredProfile | None
    profile_quantity: Quantity | None
    limits: Layouts | None
    sequence_length: int | None
    global_batch: int | None
    batch_remainder_tokens: int
    run_steps: int | None
    run_tokens: int | None
    missing: tuple[Missing, ...]
    assumed: tuple[Assumed, ...]
    evidence: tuple[Evidence, ...]
    contradictions: tuple[Contradiction, ...]
    files: tuple[InputFile, ...]
    #: The operator graph that the proposal gives; alone where `model` is None, else beside the shapes.
    graph: GraphCase | None = None
    left_out: tuple[LeftOut, ...] = ()

    @property
    def dated(self) -> date | None:
        """The date of the proposal, where it has one."""
        heading = self.loaded.stated.proposal
        return date.fromisoformat(heading.date) if heading and heading.date else None

    @property
    def framework(self) -> str | None:
        """The training framework that the proposal names, lower case."""
        heading = self.loaded.stated.proposal
        named = heading.framework.name if heading and heading.framework else None
        return named.lower() if named else None

    @property
    def framework_choices(self) -> tuple[str | None, str | None, Mapping[str, object]]:
        """(name, version, settings) of the training framework, settings with underscores in place of dashes."""
        heading = self.loaded.stated.proposal
        named = heading.framework if heading else None
        if named is None:
            return None, None, {}
        settings = {name.lower().lstrip("-").replace("-", "_"): value for name, value in (named.settings or {}).items()}
        return self.framework, named.version, settings

    def plan_named(self, name: str) -> PlanCase | None:
        """The stated plan of that name."""
        return next((plan for plan in self.plans if plan.name == name), None)

    def with_role(self, role: Role) -> PlanCase | None:
        """The first stated plan of that role."""
        return next((plan for plan in self.plans if plan.role is role), None)
