"""Switches Tenfold on in the agents of other frameworks, in one line each. Each module is named by its framework.

Before each call of the model, an adapter gives the framework's list to a session and has the model see the view in its
place. `host_sessions` is what all of them stand on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenfold.errors import MissingExtra


@contextmanager
def name_extra(module: str) -> Iterator[None]:
    """Raises `MissingExtra` with the extra to install, where the imports of an adapter's module find no framework."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] == "tenfold":
            raise
        name = module.rpartition(".")[2].replace("_", "-")
        remedy = _PLUG_INS.get(name) or f"pip install 'tenfold[{name}]'"
        raise MissingExtra(f"the adapter for {name} needs {exc.name}, which is not installed: {remedy}") from exc


_PLUG_INS = {"hermes": "Hermes Agent has no package to install, and loads the adapter as a plug-in of its own"}
