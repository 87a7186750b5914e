"""From a validated proposal to a case: each section resolved in turn, with one list of what is missing.

Files are read here and nowhere later. Nothing is judged: a gap becomes an entry of `Case.missing`, a default an entry of
`Case.assumed`, a quantity about the world an entry of `Case.evidence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cost.software import calibrated, families
from ..errors import InputError, PlanproofError
from ..hardware import Library
from ..model import Transformer
from ..quantity import Dimension, Grade, Provenance, Quantity
from .case import Case, InputFile
from .collector import Collector
from .load import LoadedProposal
from .profile import MeasuredProfile, read_profile
from .resolve_cluster import ClusterResolver
from .resolve_model import compare_graph, resolve_batch, resolve_graph, resolve_model, resolve_workload
from .resolve_plans import replicas_of, resolve_plans
from .schema import Heading, Layouts, Profile
from .settings import stated_dispatch

if TYPE_CHECKING:
    from .launching import Launched
    from .resolve_graph import GraphCase

MOST_TOKENS = 10**18


def resolve(loaded: LoadedProposal, library: Library) -> Case:
    """The case of a proposal. Raises InputError for a reference that cannot be read or a hardware name that is unknown."""
    collect = Collector(loaded)
    try:
        return _resolved(loaded, library, collect)
    except PlanproofError as error:
        raise collect.located(error) from None


def _resolved(loaded: LoadedProposal, library: Library, collect: Collector) -> Case:
    stated = loaded.stated
    heading = stated.proposal or Heading()
    _heading_gaps(heading, collect)
    sequence_length = stated.workload.sequence_length if stated.workload else None
    graph = resolve_graph(stated.model, sequence_length, collect)
    model = resolve_model(stated.model, sequence_length, collect)
    if graph is not None and model is not None:
        compare_graph(graph, model, collect)
    described, cluster = ClusterResolver(stated.cluster, library, collect).resolve()
    if graph is not None and not graph.sequential and model is None and sequence_length is None:
        sequence_length = 1
        collect.assume("workload.sequence_length", "/workload/sequence_length", "1", "no size of the graph depends on it")
    derived = replicas_of(stated.plans, described) if loaded.launched else None
    batch = resolve_batch(stated.workload, sequence_length, collect, derived)
    workload = resolve_workload(
        stated.workload, batch, collect, stated_dispatch(stated.proposal), sequence_length=sequence_length
    )
    if cluster is not None and heading.framework is not None:
        names = families(heading.framework.name, heading.framework.version)
        cluster = calibrated(cluster, library.calibration, *names, carry=library.carried)
    framework = heading.framework.name if heading.framework is not None else None
    plans = resolve_plans(stated.plans, _layers(model, loaded, graph), batch.sequences, described, collect, framework)
    profile, profile_quantity = _profile(stated.profile, collect)
    limits = _layouts(stated.layouts, collect)
    if loaded.launched is not None:
        _launched(loaded.launched, model, collect)
    steps, tokens = _run_length(heading, sequence_length, batch.sequences, collect)
    return Case(
        loaded=loaded,
        model=model,
        workload=workload,
        cluster=cluster,
        described=described,
        plans=plans,
        profile=profile,
        profile_quantity=profile_quantity,
        limits=limits,
        sequence_length=sequence_length,
        global_batch=batch.sequences,
        batch_remainder_tokens=batch.remainder_tokens,
        run_steps=steps,
        run_tokens=tokens,
        missing=tuple(collect.missing),
        assumed=tuple(collect.assumed),
        evidence=tuple(collect.evidence),
        contradictions=tuple(collect.contradictions),
        files=tuple(collect.files),
        graph=graph,
        left_out=tuple(collect.left_out),
    )


def _launched(launched: Launched, model: Transformer | None, collect: Collector) -> None:
    """What launch files left to their frameworks' defaults, what contradicts them, and that they were read."""
    from .launching import compare_shapes

    for path, part in launched.taken.items():
        if part.assumed is not None:
            collect.assume("launch." + path.rpartition("/")[2], path, part.value, part.assumed)
    for clash in launched.clashes:
        collect.contradicts("launch", clash.path, clash.detail, clash.plan)
    for launch, path in launched.files:
        collect.files.append(InputFile(path, launch.sha256, launch.kind))
    if model is not None and collect.loaded.stated.model is not None and collect.loaded.stated.model.config is not None:
        compare_shapes(launched, model, collect)


def _layers(model: Transformer | None, loaded: LoadedProposal, graph: GraphCase | None) -> int | None:
    if model is not None:
        return model.layers
    if graph is not None:
        return graph.layers
    shapes = loaded.stated.model.transformer if loaded.stated.model else None
    return shapes.layers if shapes else None


def _heading_gaps(heading: Heading, collect: Collector) -> None:
    if heading.objective is None:
        collect.lacks(
            "objective",
            "/proposal/objective",
            "'proposal.objective': step_time, tokens_per_second, time_to_result or cost",
            "whoever asked for the run",
        )
    if heading.run_length is None or (heading.run_length.tokens is None and heading.run_length.steps is None):
        collect.lacks(
            "run_length",
            "/proposal/run_length",
            "'proposal.run_length': tokens or steps; without it planning cannot be weighed against the run",
            "the training recipe",
        )


def _run_length(
    heading: Heading, sequence_length: int | None, global_batch: int | None, collect: Collector
) -> tuple[int | None, int | None]:
    """Steps and tokens of the run, each as stated or derived from the other through the tokens of a step."""
    length = heading.run_length
    if length is None:
        return None, None
    steps = length.steps
    tokens = int(length.tokens.value) if length.tokens else None
    per_step = sequence_length * global_batch if sequence_length and global_batch else None
    if per_step is None:
        return steps, tokens
    if steps is not None and tokens is not None and abs(steps * per_step - tokens) > 0.02 * tokens + per_step:
        collect.contradicts(
            "run_length_twice",
            "/proposal/run_length",
            f"{steps} steps of {per_step} tokens are {steps * per_step:.4g} tokens, not {tokens:.4g}",
        )
    if steps is not None and steps * per_step > MOST_TOKENS:
        raise InputError(
            f"{steps} steps of {per_step} tokens are more than {MOST_TOKENS:.0e} tokens: no run is that long",
            place=collect.place("/proposal/run_length"),
            code="input.range",
            remedy="Check 'run_length', 'global_batch' and 'sequence_length'.",
        )
    if steps is None and tokens is not None:
        steps = -(-tokens // per_step)
    if tokens is None and steps is not None:
        tokens = steps * per_step
    return steps, tokens


def _profile(stated: str | Profile | None, collect: Collector) -> tuple[MeasuredProfile | None, Quantity | None]:
    if stated is None:
        collect.lacks(
            "profile",
            "/profile",
            "'profile': none, or a file of measured stages; silence is no answer",
            "a profiling run of single stages, or the word none",
        )
    if stated is None or isinstance(stated, str):
        return None, None
    if stated.file is None:
        collect.lacks("profile", "/profile/file", "'profile.file'", "the CSV file of the profiling run")
        return None, None
    raw, name, _ = collect.read(stated.file, "/profile/file", "profile")
    profile = read_profile(raw, name, separate_ends=stated.ends == "separate")
    grade = Grade(stated.grade) if stated.grade else None
    if grade is None:
        grade = Grade.MEASURED if stated.date or stated.source else Grade.ASSUMED
        why = "a date or source is given" if stated.date or stated.source else "neither grade, date nor source is given"
        collect.assume("profile.grade", "/profile/grade", grade.value, why)
    provenance = Provenance(grade, stated.source or "", name, None, stated.date, "/profile")
    times = [row.time for row in profile.rows if row.time is not None]
    memories = [row.memory for row in profile.rows if row.memory is not None]
    if times:
        quantity = Quantity(max(times), Dimension.TIME, provenance)
    else:
        quantity = Quantity(max(memories, default=0), Dimension.BYTES, provenance)
    return profile, quantity


def _layouts(stated: str | Layouts | None, collect: Collector) -> Layouts | None:
    if stated is None:
        collect.lacks(
            "layouts",
            "/layouts",
            "'layouts': all, or limits on the space of plans; silence is no answer",
            "what the framework and the team can run, or the word all",
        )
        return None
    return Layouts.model_construct() if isinstance(stated, str) else stated
