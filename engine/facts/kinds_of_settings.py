"""Kinds of fact about the framework that will run the plans, its own settings, and what follows from those for a plan."""

from __future__ import annotations

from .fact import Kind, flag, text, whole

OF_SETTINGS: tuple[Kind, ...] = (
    Kind(
        "framework",
        "A framework whose checks hold: the one that the proposal names, and each that it stands on.",
        {
            "name": text("Its name, as rules have it."),
            "named": flag("Whether the proposal names it; no for one that the named one stands on."),
            "version": text("The release or commit that the proposal states, of the framework that it names.", optional=True),
            "release": whole("A release as a number: 0.14.1 is 14001, 2.3 is 2003000; absent for a commit.", optional=True),
            "read": text("The version whose own checks the rules hold.", optional=True),
            "same": flag("Whether that is the version that the proposal states.", optional=True),
            "held": flag("Whether there are rules for it, or for what it stands on."),
        },
    ),
    Kind(
        "setting",
        "A setting of the framework, by its own name in small letters with underscores.",
        {
            "name": text("Its name: overlap_param_gather, zero_optimization.stage, cuda_device_max_connections ..."),
            "value": text("Its value: yes and no for a switch, a number as written, the items of a list joined by commas."),
            "number": whole("The same, where it is a whole number.", optional=True),
            "value_ppm": whole("The same in millionths, where it is a number.", optional=True),
            "count": whole("Items, where it is a list.", optional=True),
            "product": whole("Product of its items, where it is a list of whole numbers.", optional=True),
        },
    ),
    Kind(
        "setting_item",
        "One item of a setting that is a list.",
        {"name": text("The setting."), "item": text("The item.")},
    ),
    Kind(
        "world",
        "The processes that the launch starts, beside the devices of a plan.",
        {
            "plan": text("The plan."),
            "launched": whole("Processes: world_size, or nnodes x nproc_per_node, as the settings state."),
            "devices": whole("Devices of the plan."),
            "replica": whole("Devices of one replica: tensor x context x pipeline."),
            "remainder": whole("Processes that are left over after whole replicas."),
            "agrees": flag("Whether launched and devices are equal."),
            "product": text("The degrees multiplied out, in words."),
        },
        "plan",
    ),
    Kind(
        "pipe_layout",
        "A layout string of Megatron: what each virtual stage holds, read token by token.",
        {
            "plan": text("The plan."),
            "text": text("As written."),
            "readable": flag("Whether every token of it is known."),
            "stages": whole("Virtual stages it names."),
            "chunks": whole("Virtual stages a device: stages / pipeline, rounded down."),
            "interleave": whole("Chunks a device by the plan."),
            "decoders": whole("Decoder layers it places."),
            "model_layers": whole("Layers of the model.", optional=True),
            "embeddings": whole("Embeddings it places; 1 is right."),
            "losses": whole("Loss layers it places; 1 is right."),
            "ends_right": flag("Whether it begins with the embedding and ends with the loss."),
            "mtp": whole("Multi-token-prediction layers it places."),
            "mtp_stages": whole("Virtual stages that hold some of them."),
            "mtp_after": flag("Whether they all come after the last decoder."),
            "mtp_on_first": flag("Whether one is on the first pipeline rank."),
        },
        "plan",
    ),
    Kind(
        "uneven_ends",
        "Layer counts of the first and last stage that settings give, and what is left for those between.",
        {
            "plan": text("The plan."),
            "first": whole("Layers of the first stage, where a setting says so.", optional=True),
            "last": whole("Layers of the last stage, where a setting says so.", optional=True),
            "middle_layers": whole("Layers left."),
            "middle_stages": whole("Stages left."),
            "matches": flag("Whether both are zero or neither is."),
        },
        "plan",
    ),
    Kind(
        "bound",
        "A setting that must lie within what the plan or the model leaves for it.",
        {
            "plan": text("The plan."),
            "of": text(
                "global_batch, microbatch, bf16_start, bf16_end, offloaded_layers, recomputed_layers, group_top_k, "
                "virtual_stages, elastic_micro, offload_fraction (in millionths)."
            ),
            "name": text("The setting."),
            "value": whole("What it states."),
            "low": whole("The least that will do."),
            "high": whole("The most that will do."),
            "inside": flag("Whether it lies between, both ends included."),
        },
        "plan",
    ),
    Kind(
        "batch_schedule",
        "A schedule of global batches that a setting states.",
        {
            "text": text("As written."),
            "readable": flag("Whether it could be read as threshold:batch pairs."),
            "first": whole("Its first threshold.", optional=True),
            "increasing": flag("Whether thresholds increase."),
        },
    ),
)
