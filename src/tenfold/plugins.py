"""A user's own parts, found by name: `package.module:name`, or what an installed package publishes as an entry point.

A package publishes under the group of the kind, for instance in its pyproject:

    [project.entry-points."tenfold.stages"]
    drop-musings = "musings:DropMusings"

A class is called without arguments; anything else is taken as it is.
"""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Literal

from tenfold.errors import UsageError

Kind = Literal["policies", "stages", "triggers", "counters", "archives", "strategies", "extensions"]
KINDS: tuple[Kind, ...] = ("policies", "stages", "triggers", "counters", "archives", "strategies", "extensions")
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "policies": (),
    "stages": ("name", "structural", "apply"),
    "triggers": ("limits",),
    "counters": ("name", "count"),
    "archives": ("write", "read", "search"),
    "strategies": (),
    "extensions": ("applied",),
}
"""What an object must have to be of a kind: the members of the kind's protocol."""


def published(kind: Kind) -> dict[str, str]:
    """The names that installed packages publish for a kind, each with where it is."""
    return {point.name: point.value for point in entry_points(group=f"tenfold.{kind}")}


def found(kind: Kind, reference: str) -> object:
    """The object that `reference` names. Raises `UsageError` with the nearest name, or with what the object lacks."""
    where = reference
    if ":" not in reference:
        known = published(kind)
        if reference not in known:
            near = get_close_matches(reference, known, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            there = ", ".join(sorted(known)) or "none is installed"
            raise UsageError(
                f"no package publishes {reference!r} among the {kind}: {meant}There are: {there}. "
                "Or write `package.module:name`"
            )
        where = known[reference]
    module, _, name = where.partition(":")
    try:
        made: object = importlib.import_module(module)
        for part in name.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError, SyntaxError) as exc:
        raise UsageError(f"{reference!r} among the {kind} cannot be loaded: {exc}") from exc
    if isinstance(made, type):
        try:
            made = made()
        except TypeError as exc:
            what = "a class is called without arguments, so name an object of it instead"
            raise UsageError(f"{reference!r} among the {kind} cannot be made: {exc}; {what}") from exc
    missing = [member for member in _NEEDS[kind] if not hasattr(made, member)]
    if missing:
        raise UsageError(f"{reference!r} is none of the {kind}: it has no {', '.join(missing)}")
    return made
