"""The policies by name: the default, and every policy that an installed package publishes.

The five published designs are found in the same way as a stranger's: `[project.entry-points."tenfold.policies"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import cast

from tenfold.compaction.engine.default_policy import tenfold
from tenfold.compaction.engine.policy import Policy
from tenfold.config.plugins import list_plugins, load_plugin
from tenfold.errors import UsageError

DEFAULT = "tenfold"
"""The name of the default policy, which needs no package beside this one."""
PolicyFactory = Callable[..., Policy]
"""`(counter, *, summary=None, ...) -> Policy`. Its other keywords are the policy's own settings."""


class InstalledPolicies(Mapping[str, PolicyFactory]):
    """The functions that build policies, by name. A policy is loaded when it is asked for."""

    def __getitem__(self, name: str) -> PolicyFactory:
        if name == DEFAULT:
            return tenfold
        if name not in _list_names():
            raise KeyError(name)
        return _load_policy(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_list_names())

    def __len__(self) -> int:
        return len(_list_names())

    def __contains__(self, name: object) -> bool:
        return name in _list_names()


POLICIES: Mapping[str, PolicyFactory] = InstalledPolicies()
"""Every policy that is installed, yours included: its name, and the function that builds it for a counter."""


def get_preset(name: str) -> PolicyFactory:
    """Returns the function that builds the policy of that name. Raises `UsageError` with the nearest valid name."""
    try:
        return POLICIES[name]
    except KeyError:
        near = get_close_matches(name, POLICIES, n=1)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(POLICIES))
        raise UsageError(f"no policy is called {name!r}{suggestion} There are: {known}") from None


@cache
def _list_names() -> tuple[str, ...]:
    return tuple(sorted({DEFAULT, *list_plugins("policies")}))


@cache
def _load_policy(name: str) -> PolicyFactory:
    return cast("PolicyFactory", load_plugin("policies", name))
