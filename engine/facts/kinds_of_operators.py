"""Kinds of fact about a plan's stage taken operator by operator."""

from __future__ import annotations

from .fact import Kind, flag, text, whole

OF_OPERATORS: tuple[Kind, ...] = (
    Kind(
        "operators",
        "The longest stage of a plan, its operators laid out as the plan has it beside the best layouts on the same mesh.",
        {
            "plan": text("The plan."),
            "stage": whole("The stage, from 0."),
            "stated": flag("Whether the proposal states the layouts of operators."),
            "own_ns": whole("A step of the stage by its operators, in the plan's own layouts."),
            "best_ns": whole("The same in the best layouts found."),
            "saved_ppm": whole("What the best layouts save, as a share of the plan's own."),
            "conversion_ppm": whole("Share of the plan's own that conversions between layouts take."),
            "avoidable_ppm": whole("Conversions that the best layouts do without, as a share of the plan's own."),
            "largest_tensor": text("The tensor whose conversion takes longest.", optional=True),
            "largest_ppm": whole("Its share of the plan's own."),
            "replicated_ppm": whole("Share of the plan's own that is work done by several devices alike."),
            "replicated_operator": text("The operator that repeats most work.", optional=True),
            "replicated_axis": text("The axis along which it does.", optional=True),
            "stage_ns": whole("A step of the stage by the cost model of stages."),
            "disagreement_ppm": whole("How far the two prices of the same plan are apart, as a share of the stage's."),
        },
        "plan",
    ),
    Kind(
        "not_laid_out",
        "A plan of an operator graph with a stage that has no layout as stated.",
        {"plan": text("The plan."), "why": text("The layers, and what does not divide.")},
        "plan",
    ),
    Kind(
        "tensor_weights",
        "The parameters of a stage of an operator graph whose mesh has a tensor axis.",
        {
            "plan": text("The plan."),
            "stage": whole("The stage, from 0."),
            "tensor": whole("Tensor-parallel degree."),
            "parameters": whole("Parameters of the stage."),
            "whole": whole("Those of them that each device of the tensor axis holds."),
            "whole_ppm": whole("Their share."),
            "would": text("Degrees up to 16 that divide most of the model's weights.", optional=True),
        },
        "plan",
    ),
)
