"""Kinds of fact about figures that a proposal quotes, and about what devices and links allow of them."""

from __future__ import annotations

from .fact import Kind, flag, text, whole

OF_CLAIMS: tuple[Kind, ...] = (
    Kind(
        "claim",
        "A figure that the proposal quotes.",
        {
            "text": text("As quoted."),
            "metric": text(
                "mfu, speed_up, throughput, step_time, memory, loss_agreement, gradient_agreement or other.", optional=True
            ),
            "value_ppm": whole("The figure in millionths.", optional=True),
            "scaling": text("The scaling of the claim.", optional=True, one_of=("fixed_model", "weak_scaling")),
            "proposal_scaling": text("The scaling of the proposal.", optional=True),
            "baseline": text("The system compared with.", optional=True),
            "baseline_inter_operator": flag("Whether the baseline has pipeline parallelism.", optional=True),
            "pipelined": flag("Whether a plan of the proposal has pipeline parallelism."),
            "source": text("Where it is quoted from.", optional=True),
            "unit": text("Unit of a throughput.", optional=True),
            "nodes": whole("Nodes that it was found on.", optional=True),
            "cluster_nodes": whole("Nodes of this cluster.", optional=True),
        },
    ),
    Kind(
        "claim_slip",
        "A key of a claim that cannot be as it is stated, so that nothing is held against it.",
        {
            "text": text("The claim, as quoted."),
            "key": text("The key.", one_of=("plan", "value", "unit", "recipe")),
            "why": text("What is wrong with it, in words."),
        },
    ),
    Kind(
        "claim_limit",
        "A claimed throughput or step time beside what the devices' peak rate allows for this model.",
        {
            "text": text("The claim, as quoted."),
            "metric": text("throughput or step_time."),
            "claimed_tflop": whole("Model TFLOP a second of one device that it amounts to."),
            "peak_tflop": whole("The device's highest dense rate, in TFLOP a second."),
            "above": flag("Whether the claim is above it."),
        },
    ),
    Kind(
        "claim_link",
        "A claimed speed beside the time in which a plan's least traffic can leave a device over the slowest link it crosses.",
        {
            "text": text("The claim, as quoted."),
            "metric": text("throughput, step_time, mfu or speed_up."),
            "plan": text("The plan whose traffic it is: the one that the claim names, or the one that is bound least."),
            "reference": text("The plan that a speed-up is over.", optional=True),
            "axis": text("The axis whose traffic sets the bound.", one_of=("data", "tensor", "pipeline")),
            "carries": text("What crosses, in words."),
            "link": text("The link."),
            "sent_bytes": whole("What a device must send over it in a step, at the least."),
            "rate_bytes_per_s": whole("What the link takes from one device while all send, none of it over-subscribed."),
            "claimed_ns": whole("Time of a step by the claim."),
            "bound_ns": whole("Time of a step by the link, all of it hidden under computation."),
            "above": flag("Whether the claim is faster than the link."),
        },
    ),
    Kind(
        "agreement",
        "A claim that losses or gradients of two runs are equal, with what it says of how they were compared.",
        {
            "text": text("The claim, as quoted."),
            "of": text("loss or gradients.", one_of=("loss", "gradients")),
            "by_words": flag("Whether it was told by its text, the metric not being given."),
            "lacking": whole("How many of the seven parts of a recipe it does not state."),
            "lacks": text("Which.", optional=True),
            "differs": text("Where its recipe is another one than this proposal's workload, with both values.", optional=True),
            "exact": flag("Whether equal means bit by bit."),
            "reordered": flag("Whether plans of the proposal add up the same numbers in another order or grouping."),
            "difference": text("The largest relative difference that was found.", optional=True),
            "tolerance": text("The relative difference that counts as equal.", optional=True),
            "within": flag("Whether what was found is within what counts as equal.", optional=True),
        },
    ),
)
