"""A plan of an operator graph, priced as a plan of shapes is: the same step, ledger, verdict and interval.

Layouts of layers are chosen once, at the nominal rates; every draw prices the same layouts. No measured run of the calibrations
is of a graph, so that every plan is a named exception of the interval and its residual is the wide one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ..cluster.cluster import Cluster
from ..model import Attention, Transformer, Workload
from ..model.graph_model import GraphModel
from ..plan import Plan
from .graph_memory import GraphMemoryTerms, PartsOf
from .graph_time import GraphTimeModel, Layouts
from .intervals import DRAWS, Uncertainty, draws
from .memory import MemoryModel
from .memory_terms import BARE, Implementation
from .pricing import Pricer
from .sending import Transfer
from .step import TimeModel

#: Why the interval is wider than that of shapes.
NO_RUN = "no measured run is of an operator graph that is not of the transformer family"


class GraphUncertainty(Uncertainty):
    """Intervals of one graph."""

    def __init__(self, nominal: GraphTimeModel, n: int = DRAWS) -> None:
        self.nominal: TimeModel = nominal
        constants, workload, cluster = nominal.constants, nominal.workload, nominal.cluster

        def models(one: Workload, *, flash: bool) -> list[TimeModel]:
            chosen = draws(cluster, n, flash=flash, constants=constants)
            return [GraphTimeModel(nominal.layouts, one, cluster, each, constants, nominal.transfer) for each in chosen]

        self.models = models(workload, flash=workload.attention is not Attention.UNFUSED)
        if workload.attention is None and nominal.has_attention:
            self.models += models(replace(workload, attention=Attention.UNFUSED), flash=False)
        self._drawn = {}

    def _unmeasured(self, plan: Plan) -> tuple[str, ...]:
        known = self.calibration
        if known is None or not known.carried_from:
            return (NO_RUN,)
        return f"no measured run on {known.device}: values carried from {known.carried_from}", NO_RUN


class GraphPricer(Pricer):
    """Prices plans of one graph and workload on one cluster."""

    def __init__(
        self, layouts: Layouts, workload: Workload, cluster: Cluster, memory: MemoryModel, *, n_draws: int = DRAWS,
        transfer: Transfer = Transfer.DIRECT,
    ) -> None:  # fmt: skip
        self.model, self.workload, self.cluster = cast(Transformer, layouts.model), workload, cluster
        self.graph_time = GraphTimeModel(layouts, workload, cluster, transfer=transfer)
        self.time: TimeModel = self.graph_time
        self.memory = memory
        self._n_draws = n_draws
        self._uncertainty: Uncertainty | None = None
        # Model FLOPs a token, forward and backward, as for shapes: the step's are this times its tokens.
        self._flops: float = 3 * layouts.model.forward_flops / workload.sequence_length

    @property
    def uncertainty(self) -> Uncertainty:
        """The draws, made when the first interval is asked for."""
        if self._uncertainty is None:
            self._uncertainty = GraphUncertainty(self.graph_time, self._n_draws)
        return self._uncertainty


def graph_memory(model: GraphModel, workload: Workload, parts_of: PartsOf, implementation: Implementation = BARE) -> MemoryModel:
    """What ledgers of one graph share."""
    found = MemoryModel(cast(Transformer, model), workload, implementation)
    found.terms = GraphMemoryTerms(model, workload, parts_of, implementation)
    return found
