"""Broken folds: the source of `tenfold.core.view` with one exact edit each, compiled beside the real package.

A mutant never touches the real modules: both files are compiled under names of their own, and the edited `view` takes
its units from the edited `units`. An edit whose text does not occur exactly once is an error, so that a mutant cannot
silently become the original when the code moves.
"""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from msgspec import Struct

import tenfold.core.view.fold
import tenfold.core.view.units
from tenfold.core.view.fold import View

UNITS = "tenfold.core.view.units"
VIEW = "tenfold.core.view.fold"


class Mutant(Struct, frozen=True):
    """One edit: in `module`, `old` (which must occur once) becomes `new`."""

    name: str
    module: str
    old: str
    new: str


def build_fold(mutant: Mutant) -> type[View]:
    """The View class of the package with this edit."""
    units_name, view_name = f"_mutant_{mutant.name}_units", f"_mutant_{mutant.name}_view"
    units = read_source(tenfold.core.view.units)
    view = read_source(tenfold.core.view.fold)
    if mutant.module == UNITS:
        units = apply_edit(units, mutant)
    else:
        view = apply_edit(view, mutant)
    view = apply_edit(view, Mutant(mutant.name, VIEW, f"from {UNITS} import", f"from {units_name} import"))
    compile_module(units_name, units)
    made: type[View] = compile_module(view_name, view).View
    return made


def apply_edit(source: str, mutant: Mutant) -> str:
    """The source with the edit. Raises ValueError when its text does not occur exactly once."""
    found = source.count(mutant.old)
    if found != 1:
        raise ValueError(f"mutant {mutant.name}: its text occurs {found} times in {mutant.module}; write it anew")
    return source.replace(mutant.old, mutant.new)


def read_source(module: ModuleType) -> str:
    """The text of a module's file."""
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def compile_module(name: str, source: str) -> ModuleType:
    """A module of this name, made from this text and entered among the modules under that name."""
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)  # compiling our own edited source  # noqa: S102  # compiling our own edited source
    return module


def load_mutants() -> tuple[Mutant, ...]:
    """Reads `mutants.toml`."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    modules = {"view": VIEW, "units": UNITS}
    return tuple(
        Mutant(name, modules[part], edit["old"], edit["new"]) for part in tables for name, edit in tables[part].items()
    )


MUTANTS = load_mutants()
