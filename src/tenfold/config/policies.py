"""The policies by name: the default, and every policy that an installed package publishes.

The five published designs are found in the same way as a stranger's: `[project.entry-points."tenfold.policies"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import cast

from tenfold.compaction.engine.policy import Policy, tenfold
from tenfold.config.plugins import list_plugins, load_plugin
from tenfold.errors import UsageError, suggest_nearest

DEFAULT = "tenfold"
"""The name of the default policy, which needs no package beside this one."""
PolicyFactory = Callable[..., Policy]
"""`(counter, *, summary=None, ...) -> Policy`. Its other keywords are the policy's own settings."""


class InstalledPolicies(Mapping[str, PolicyFactory]):
    """The functions that build policies, by name. A policy is loaded when it is asked for."""

    def __getitem__(self, name: str) -> PolicyFactory:
        if name not in _list_names():
            raise KeyError(name)
        return tenfold if name == DEFAULT else _load_policy(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_list_names())

    def __len__(self) -> int:
        return len(_list_names())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"


POLICIES: Mapping[str, PolicyFactory] = InstalledPolicies()
"""Every policy that is installed, yours included: its name, and the function that builds it for a counter."""


def get_preset(name: str, *, instances: Iterable[str] = ()) -> PolicyFactory:
    """Returns the function that builds the policy of that name, or the one that `package.module:name` names.

    Raises `UsageError` with the nearest valid name. `instances` are names of the settings, which are valid there too.
    """
    if ":" in name:
        return _load_policy(name)
    try:
        return POLICIES[name]
    except KeyError:
        raise UsageError(f"no policy is called {name!r}{suggest_nearest(name, [*POLICIES, *instances])}") from None


@cache
def _list_names() -> tuple[str, ...]:
    return tuple(sorted({DEFAULT, *list_plugins("policies")}))


@cache
def _load_policy(name: str) -> PolicyFactory:
    return cast("PolicyFactory", load_plugin("policies", name))
