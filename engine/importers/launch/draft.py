"""A proposal in the making: what a format has read so far, value by value, and the arithmetic that all formats share.

Vocabulary as in `parts`. A degree that the file does not say and that follows from the number of devices is `rest`: what the
other axes leave. Knows no format and no framework but by the names that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import Place
from .entries import Entry, Open
from .parts import Gap, Part

PLAN = "/plans/0"
Taken = tuple[object, Entry] | None


@dataclass(slots=True)
class Draft:
    """The parts of one launch file. `source` is what its framework's defaults are cited as."""

    place: Place
    source: str = ""
    parts: dict[str, Part] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    notes: list[tuple[str, Place]] = field(default_factory=list)

    def put(self, path: str, value: object, entry: Entry) -> None:
        """State a value, read from an entry."""
        self.parts[path] = Part(path, value, entry.place, entry.key)

    def keep(self, path: str, taken: Taken) -> object:
        """State what was taken as it is; where it is open, note a gap. Returns the value, None where there is none."""
        if taken is None:
            return None
        value, entry = taken
        if isinstance(value, Open):
            self.leave(path, f"'{entry.key}': {value.why}", entry.place)
            return None
        self.put(path, value, entry)
        return value

    def known(self, path: str, taken: Taken) -> object:
        """The value of what was taken; where it is open, a gap at `path` is noted and None returned."""
        if taken is None:
            return None
        value, entry = taken
        if isinstance(value, Open):
            self.leave(path, f"'{entry.key}': {value.why}", entry.place)
            return None
        return value

    def assume(self, path: str, value: object, why: str) -> None:
        """Fill in a framework's own default, where nothing is stated or open."""
        if path not in self.parts and not self.open(path):
            self.parts[path] = Part(path, value, self.place, "", f"{why}; {self.source}")

    def leave(self, path: str, why: str, place: Place | None = None) -> None:
        """Note that the file leaves a value open."""
        self.gaps.append(Gap(path, why, place or self.place))

    def note(self, text: str, place: Place | None = None) -> None:
        """Say something that no part holds."""
        self.notes.append((text, place or self.place))

    def open(self, path: str) -> bool:
        """Whether a gap was noted at a pointer."""
        return any(gap.path == path for gap in self.gaps)

    def value(self, path: str) -> object:
        """A value stated or assumed so far."""
        part = self.parts.get(path)
        return part.value if part is not None else None

    def number(self, path: str) -> int | None:
        """A whole number stated or assumed so far."""
        value = self.value(path)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def drop(self, path: str) -> None:
        """Take a value back."""
        self.parts.pop(path, None)


def finish(draft: Draft, devices: Taken = None, *, data: Taken = None) -> None:
    """The plan's name and role, and its data degree: stated, or what the other axes leave of the devices.

    `devices` is the number in all, where the file says it; `data` the data-parallel degree, where it does.
    """
    uniform = f"{PLAN}/uniform"
    for axis in ("tensor", "pipeline", "context", "expert"):
        if f"{uniform}/{axis}" not in draft.parts and not draft.open(f"{uniform}/{axis}"):
            draft.assume(f"{uniform}/{axis}", 1, f"no '{axis}' degree is stated, and the framework's own is 1")
    degrees = [draft.number(f"{uniform}/{axis}") for axis in ("tensor", "pipeline", "context")]
    stated = draft.known(f"{uniform}/data", data)
    total = draft.known("/cluster/devices/count", devices)
    if isinstance(stated, int) and data is not None:
        draft.put(f"{uniform}/data", stated, data[1])
    elif isinstance(total, int) and devices is not None and None not in degrees:
        product = 1
        for degree in degrees:
            product *= degree or 1
        if product and total % product == 0 and total >= product:
            draft.put(f"{uniform}/data", total // product, devices[1])
        else:
            draft.put(f"{uniform}/data", "rest", devices[1])
            if draft.number("/cluster/nodes/count") is None and draft.number("/cluster/devices/count") is None:
                draft.note(
                    f"{total} devices are no multiple of tensor x pipeline x context = {product}: the framework refuses this",
                    devices[1].place,
                )
    elif not draft.open(f"{uniform}/data"):
        draft.parts[f"{uniform}/data"] = Part(f"{uniform}/data", "rest", draft.place, "", None)
    if any(draft.open(f"{uniform}/{axis}") for axis in ("tensor", "pipeline", "context", "expert")):
        # A degree that is left out counts as 1 in a proposal: where one is open none is stated, so that none is taken for 1.
        left = [part for path, part in draft.parts.items() if path.startswith(uniform) and not part.assumed and part.key]
        said = ", ".join(f"'{part.key}' {part.value}" for part in left)
        for path in [path for path in draft.parts if path.startswith(uniform)]:
            draft.drop(path)
        if said:
            draft.note(f"{said}: the file states this, and the plan does not while another degree is open", left[0].place)
    for key, value in (("name", "launch"), ("role", "submitted")):
        draft.parts.setdefault(f"{PLAN}/{key}", Part(f"{PLAN}/{key}", value, draft.place))


def schedule_of(draft: Draft) -> None:
    """1F1B, interleaved where a device holds several chunks, for a pipeline whose schedule is not stated."""
    if (draft.number(f"{PLAN}/uniform/pipeline") or 1) > 1 and f"{PLAN}/schedule" not in draft.parts:
        several = (draft.number(f"{PLAN}/interleave") or 1) > 1
        why = "several chunks a device are interleaved" if several else "a pipeline without chunks runs 1F1B"
        draft.assume(f"{PLAN}/schedule", "interleaved_1f1b" if several else "1f1b", why)


def mixed_precision(draft: Draft, entry: Entry, dtype: str, *, gradients: str, why: str) -> None:
    """16-bit parameters with an fp32 master copy and fp32 moments; the dtype is the file's, the rest the framework's."""
    base = "/workload/precision"
    draft.put(f"{base}/parameters", dtype, entry)
    draft.assume(f"{base}/gradients", gradients, why)
    draft.assume(f"{base}/master", "fp32", "mixed precision keeps an fp32 copy of the parameters")
    draft.assume(f"{base}/moments", "fp32", "the optimizer's states are fp32")


def fp8_products(draft: Draft, entry: Entry) -> None:
    """Matrix products in fp8; the parameters by role are kept as is stated of them."""
    draft.put("/workload/precision/compute", "fp8", entry)


def full_precision(draft: Draft, why: str, entry: Entry | None = None) -> None:
    """fp32 everywhere."""
    base = "/workload/precision"
    for role, value in (("parameters", "fp32"), ("gradients", "fp32"), ("master", "none"), ("moments", "fp32")):
        if entry is not None and role == "parameters":
            draft.put(f"{base}/{role}", value, entry)
        else:
            draft.assume(f"{base}/{role}", value, why)
