"""The proposal: its form, its text with places, and the case that it describes."""

from .case import (
    Assumed,
    Case,
    ClusterCase,
    Contradiction,
    Evidence,
    InputFile,
    LinkCase,
    Missing,
    NodeCase,
    PlanCase,
    StatedStage,
    TopologyFile,
)
from .load import LoadedProposal, load_proposal, parse_proposal, schema
from .profile import MeasuredProfile, ProfileRow, read_profile
from .resolve import resolve
from .schema import Layouts, Proposal

__all__ = [
    "Assumed",
    "Case",
    "ClusterCase",
    "Contradiction",
    "Evidence",
    "InputFile",
    "Layouts",
    "LinkCase",
    "LoadedProposal",
    "MeasuredProfile",
    "Missing",
    "NodeCase",
    "PlanCase",
    "ProfileRow",
    "Proposal",
    "StatedStage",
    "TopologyFile",
    "load_proposal",
    "parse_proposal",
    "read_profile",
    "resolve",
    "schema",
]
