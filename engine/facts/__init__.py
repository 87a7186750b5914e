"""Facts: what rules see. `fact` declares what a fact is, `kinds` which there are, the modules beside them derive them."""

from .fact import Fact, Kind, in_field_unit, make, of_kind, show, unit_of
from .kinds import CAPABILITIES, KINDS, NEEDS

__all__ = ["CAPABILITIES", "KINDS", "NEEDS", "Fact", "Kind", "in_field_unit", "make", "of_kind", "show", "unit_of"]
