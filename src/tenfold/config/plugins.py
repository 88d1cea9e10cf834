"""Finds a user's own parts by name: `package.module:name`, or an entry point of an installed package.

A package publishes a part under the group of its kind, for instance in its pyproject:

    [project.entry-points."tenfold.stages"]
    drop-musings = "musings:DropMusings"

A class is called without arguments. Anything else is used as it is.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Literal, get_args

from tenfold.errors import UsageError, suggest_nearest

PluginKind = Literal[
    "policies", "stages", "triggers", "counters", "archives", "strategies", "extensions", "commands", "tables"
]
PLUGIN_KINDS: tuple[PluginKind, ...] = get_args(PluginKind)
_REQUIRED_MEMBERS: dict[PluginKind, tuple[str, ...]] = {
    "stages": ("name", "structural", "apply"),
    "triggers": ("get_limits",),
    "counters": ("name", "count"),
    "archives": ("receive", "finish", "follow"),
    "extensions": ("before_hooks", "after_hooks", "listeners"),
}
"""The members that an object of a kind must have: those of the kind's protocol. Other kinds have none."""


def list_plugins(kind: PluginKind) -> dict[str, str]:
    """Lists the parts of a kind that installed packages publish: each name with its `module:name`."""
    return {point.name: point.value for point in entry_points(group=f"tenfold.{kind}")}


def load_plugin(kind: PluginKind, reference: str) -> object:
    """Loads the object that `reference` names.

    Raises `UsageError` with the nearest name, or with the members that the object lacks.
    """
    target = reference
    if ":" not in reference:
        plugins = list_plugins(kind)
        if reference not in plugins:
            near = suggest_nearest(reference, plugins)
            raise UsageError(
                f"no package publishes {reference!r} among the {kind}{near}; or write `package.module:name`"
            )
        target = plugins[reference]
    module, _, name = target.partition(":")
    try:
        plugin: object = importlib.import_module(module)
        for part in name.split("."):
            plugin = getattr(plugin, part)
    except (ImportError, AttributeError, SyntaxError) as exc:
        raise UsageError(f"{reference!r} among the {kind} cannot be loaded: {exc}") from exc
    if isinstance(plugin, type):
        try:
            plugin = plugin()
        except TypeError as exc:
            what = "a class is called without arguments, so name an object of it instead"
            raise UsageError(f"{reference!r} among the {kind} cannot be made: {exc}; {what}") from exc
    missing = [member for member in _REQUIRED_MEMBERS.get(kind, ()) if not hasattr(plugin, member)]
    if missing:
        raise UsageError(f"{reference!r} is none of the {kind}: it has no {', '.join(missing)}")
    return plugin
