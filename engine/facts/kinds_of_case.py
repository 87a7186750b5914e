"""Kinds of fact about a proposal as a whole: what it states, what it lacks, how good its evidence is."""

from __future__ import annotations

from .fact import Kind, flag, text, whole
from .words import GRADES, ROLES

OF_CASE: tuple[Kind, ...] = (
    Kind(
        "proposal",
        "The proposal itself; always exactly one.",
        {
            "objective": text("What the best plan is best at.", optional=True),
            "scaling": text("fixed_model or weak_scaling.", optional=True, one_of=("fixed_model", "weak_scaling")),
            "framework": text("Name of the training framework, lower case.", optional=True),
            "framework_version": text("Its release or commit.", optional=True),
            "authority": text("What the review is asked to do.", optional=True),
            "run_steps": whole("Expected length of the run in optimizer steps, stated or derived.", optional=True),
            "run_tokens": whole("Expected length of the run in tokens, stated or derived.", optional=True),
        },
    ),
    Kind(
        "missing",
        "Something that a review needs and the proposal does not say. `path` is where it would stand.",
        {
            "item": text("What is missing, by the name of an evidence item: model, shapes, global_batch, fabric ..."),
            "what": text("The same in the user's words, with the key to write."),
            "plan": text("The plan that lacks it, where it is one plan's.", optional=True),
            "role": text("That plan's role.", optional=True, one_of=ROLES),
        },
    ),
    Kind(
        "contradiction",
        "Two statements of the proposal that cannot both hold.",
        {
            "code": text("Which kind of contradiction."),
            "detail": text("Both statements, in words."),
            "plan": text("The plan that is affected, where it is one.", optional=True),
        },
    ),
    Kind(
        "assumed",
        "A value that the proposal left out and that a documented default fills; it taints what it decides.",
        {
            "item": text("What was filled: plan.NAME.zero, cluster.fabric.oversubscription, model.family ..."),
            "key": text("The key that was filled: the last part of the item."),
            "value": text("With what."),
            "why": text("On which ground."),
        },
    ),
    Kind(
        "evidence",
        "A quantity about the world that the proposal or a data sheet states, or that had to be estimated.",
        {
            "item": text(
                "link_bandwidth, link_latency, device_memory, contention, stage_latency, workspace, activation_memory, "
                "collective_curves, compute_rate ..."
            ),
            "name": text("Which one, in words."),
            "grade": text("Its grade.", one_of=GRADES),
            "grade_rank": whole("0 measured, 1 published, 2 vendor, 3 estimated, 4 assumed."),
            "age_days": whole("Days from the evidence's date to the review's date.", optional=True),
        },
    ),
    Kind(
        "demand",
        "A grade that the policy demands of an evidence item.",
        {
            "item": text("The evidence item."),
            "grade": text("The weakest grade accepted.", one_of=GRADES),
            "grade_rank": whole("Its rank."),
            "known": flag("Whether there is an evidence item of that name at all."),
        },
    ),
    Kind(
        "policy",
        "What the policy demands of every plan.",
        {"headroom_ppm": whole("Share of a device's memory that must stay free on every rank.")},
    ),
    Kind(
        "model",
        "The model, where its description is complete.",
        {
            "name": text("Its name or family."),
            "layers": whole("Blocks."),
            "hidden": whole("Residual width."),
            "heads": whole("Query heads."),
            "kv_heads": whole("Key/value heads."),
            "head_dim": whole("Width of a head."),
            "ffn": whole("Inner width of the MLP."),
            "vocabulary": whole("Rows of the embedding."),
            "experts": whole("Routed experts of a layer.", optional=True),
            "top_k": whole("Experts a token goes to.", optional=True),
            "parameters": whole("Parameters in all."),
            "layer_kinds": whole("Different kinds of layer: 1 where all are equal."),
            "ends_share_ppm": whole("Forward work of the embedding and head over that of one layer, in ppm of a layer."),
        },
    ),
    Kind(
        "shape_problem",
        "Shapes of the model that contradict each other.",
        {"code": text("Which contradiction."), "detail": text("The numbers that disagree.")},
    ),
    Kind(
        "workload",
        "What is trained how, as far as it is stated.",
        {
            "sequence_length": whole("Tokens a sequence.", optional=True),
            "global_batch_sequences": whole("Sequences a step.", optional=True),
            "global_batch_tokens": whole("Tokens a step.", optional=True),
            "batch_remainder_tokens": whole("Tokens of the batch that fill no whole sequence.", optional=True),
            "optimizer": text("Its name.", optional=True),
            "optimizer_known": flag("Whether its states are known.", optional=True),
            "attention": text("flash or unfused.", optional=True, one_of=("flash", "unfused")),
            "dynamic_shapes": flag("Whether shapes change from step to step.", optional=True),
            "document_mask": flag("Whether packed documents are masked from each other.", optional=True),
            "loss_scaling": text("none, static or dynamic.", optional=True),
            "dropout_ppm": whole("Dropout probability.", optional=True),
        },
    ),
    Kind(
        "precision",
        "The dtype of one role.",
        {
            "role": text("parameters, gradients, master, moments or communication."),
            "dtype": text("fp32, tf32, bf16, fp16, fp8 or none."),
        },
    ),
    Kind(
        "cluster",
        "The cluster, as far as it is described.",
        {
            "devices": whole("Devices in all.", optional=True),
            "nodes": whole("Nodes in all.", optional=True),
            "devices_per_node": whole("Of the first kind of node.", optional=True),
            "device_types": whole("Different types of device.", optional=True),
            "island": whole("Devices that reach each other at the node's fastest rate.", optional=True),
            "connected": flag("Whether stated links join all nodes.", optional=True),
            "parts": whole("Parts that no stated link joins; 1 where connected.", optional=True),
            "bare_count": flag("Whether only a device count is given."),
        },
    ),
    Kind(
        "node_type",
        "One kind of node.",
        {
            "name": text("Its name."),
            "count": whole("How many."),
            "devices": whole("Devices a node."),
            "device": text("The device type."),
            "memory_bytes": whole("Capacity of one device.", optional=True),
            "memory_grade": text("Its grade.", optional=True, one_of=GRADES),
            "sheet_memory_bytes": whole("What the device's data sheet says, nominal.", optional=True),
            "nics": whole("Network cards that the node's data sheet lists.", optional=True),
            "nic_bandwidth_bytes_per_s": whole("Of one of them, per direction.", optional=True),
        },
    ),
    Kind(
        "link",
        "One tier of links: inside an island, inside a node, or the fabric.",
        {
            "name": text("Unique in the cluster."),
            "tier": text("Where it is.", one_of=("island", "node", "fabric")),
            "medium": text("nvlink, nvswitch, pcie, infiniband, ethernet ..."),
            "bandwidth_bytes_per_s": whole("Of one device, per direction, after sharing.", optional=True),
            "latency_ns": whole("One way.", optional=True),
            "span": whole("Devices in one unit of the tier."),
            "grade": text("Grade of the bandwidth.", optional=True, one_of=GRADES),
            "nics": whole("Network cards a node, for a fabric.", optional=True),
            "nic_bandwidth_bytes_per_s": whole("Of one card, for a fabric.", optional=True),
            "faster_than_inner": flag("Whether it is faster than the tier inside it.", optional=True),
        },
    ),
    Kind(
        "topology_file",
        "A measured topology of one node, as a tool printed it.",
        {
            "devices": whole("Devices it names."),
            "node_devices": whole("Devices of a node as described.", optional=True),
            "islands": whole("Groups of devices joined by fast links."),
            "largest_island": whole("Devices of the largest of them."),
            "sheet_island": whole("Devices of an island by the node's data sheet; 1 without fast links.", optional=True),
            "gaps": whole("Cells or rows that could not be read."),
            "disagreeing": whole("Links that the rows of their two ends describe differently."),
            "weak_pairs": whole("Pairs behind a switch with fewer NVLinks than the other pairs."),
            "nics": whole("Network cards it names.", optional=True),
            "fabric_nics": whole("Cards of a node that the fabric counts.", optional=True),
            "devices_a_nic": whole("The most devices that share a nearest card.", optional=True),
        },
    ),
    Kind(
        "measured_collective",
        "A measured collective beside the most that the links it ran over can carry.",
        {
            "operation": text("all_reduce, all_gather ..."),
            "ranks": whole("Devices."),
            "nodes": whole("Nodes they sit on, stated or the fewest that hold them."),
            "bus_bandwidth_bytes_per_s": whole("The best bus bandwidth of the run."),
            "limit_bytes_per_s": whole("The most that any algorithm can show on these links."),
            "link": text("The link that sets the limit."),
            "above_ppm": whole("How far the measurement is above the limit, as a share of it; 0 where it is not."),
        },
    ),
    Kind(
        "rate_check",
        "A rate that the proposal states and a data sheet states too.",
        {
            "what": text("Of what."),
            "sheet": text("The data sheet."),
            "stated_bytes_per_s": whole("As stated."),
            "sheet_bytes_per_s": whole("By the data sheet."),
            "factor_ppm": whole("The larger over the smaller, in millionths."),
            "side": text("Where the stated rate lies.", one_of=("above", "below", "equal")),
            "slip": text(
                "The slip that the factor looks like: 7.5 to 8.5 is bits for bytes, 900 to 1,100 a prefix.",
                one_of=("none", "bits_and_bytes", "thousand"),
            ),
        },
    ),
    Kind(
        "contention",
        "What is said of others on the fabric.",
        {
            "stated": text("none or shared.", one_of=("none", "shared")),
            "share_ppm": whole("Share that others take.", optional=True),
            "changing": flag("Whether it varies while the run lasts.", optional=True),
        },
    ),
    Kind(
        "profile",
        "The measured profile, or the word none.",
        {
            "stated": text("none or file.", one_of=("none", "file")),
            "rows": whole("Measurements in it.", optional=True),
            "grade": text("Its grade.", optional=True, one_of=GRADES),
            "memory_method": text("one_layer_a_device or whole_stage, where stated.", optional=True),
            "layers": whole("Layers that it covers.", optional=True),
            "model_layers": whole("Layers of the model.", optional=True),
            "usable": flag("Whether it can replace estimates for the model.", optional=True),
        },
    ),
    Kind(
        "profile_total",
        "A total that the profile states beside the sum of its parts, for one mesh and microbatch.",
        {
            "quantity": text("memory or time.", one_of=("memory", "time")),
            "tensor": whole("Tensor degree of the rows."),
            "microbatch": whole("Their microbatch."),
            "stated": whole("The stated total: bytes, or nanoseconds."),
            "sum": whole("The sum of the parts, in the same unit."),
            "deviation_ppm": whole("How far the total is from the sum, as a share of the sum, without sign."),
            "same_everywhere": flag("Whether the same total stands for every mesh and microbatch."),
        },
    ),
    Kind(
        "profile_rate",
        "The fastest measurement of the profile: the FLOPs of its layers over its time, against the device's peak.",
        {
            "line": whole("Its line."),
            "first_layer": whole("First layer."),
            "last_layer": whole("Last layer."),
            "time_ns": whole("Measured forward and backward of one microbatch."),
            "floor_ns": whole("What the layers' matrix products alone take at the device's peak rate."),
        },
    ),
    Kind(
        "profile_parameters",
        "Parameter bytes of one layer at two tensor degrees.",
        {
            "layer": whole("The layer."),
            "tensor_low": whole("The smaller degree."),
            "tensor_high": whole("The larger degree."),
            "same": flag("Whether the profile gives the same figure for both."),
        },
    ),
    Kind(
        "profile_contradiction",
        "Two rows of the profile that measure the same thing and differ.",
        {"line": whole("Line of the first."), "other_line": whole("Line of the second."), "what": text("What was measured.")},
    ),
    Kind(
        "layouts",
        "The limits on the declared space.",
        {
            "stated": text("all or limited.", one_of=("all", "limited")),
            "max_axes": whole("Axes above 1 at once.", optional=True),
        },
    ),
    Kind(
        "claim",
        "A figure that the proposal quotes.",
        {
            "text": text("As quoted."),
            "metric": text("mfu, speed_up, throughput, step_time, memory or other.", optional=True),
            "value_ppm": whole("The figure in millionths.", optional=True),
            "scaling": text("The scaling of the claim.", optional=True, one_of=("fixed_model", "weak_scaling")),
            "proposal_scaling": text("The scaling of the proposal.", optional=True),
            "baseline": text("The system compared with.", optional=True),
            "baseline_inter_operator": flag("Whether the baseline has pipeline parallelism.", optional=True),
            "pipelined": flag("Whether a plan of the proposal has pipeline parallelism."),
            "source": text("Where it is quoted from.", optional=True),
        },
    ),
    Kind(
        "planning",
        "What planning costs.",
        {
            "cost_device_seconds": whole("Profiling and change-over together.", optional=True),
            "share_of_run_ppm": whole("Of the run's device time by the submitted or best plan.", optional=True),
        },
    ),
    Kind(
        "suppression",
        "A comment of the proposal that suppresses a rule in one line.",
        {
            "rule": text("The rule, as it is written."),
            "state": text(
                "in_force; expired; unknown: no such rule; forbidden: a rule that cannot be suppressed; unused: found nothing.",
                one_of=("in_force", "expired", "unknown", "forbidden", "unused"),
            ),
            "line": whole("The comment's line."),
            "owner": text("Who answers for it."),
            "until": text("Its last day, year-month-day.", optional=True),
            "near": text("Where the rule is unknown, the nearest id that exists.", optional=True),
        },
    ),
)
