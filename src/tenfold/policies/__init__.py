"""The presets by name. They only compose parts, and have no logic of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tenfold.errors import UsageError
from tenfold.policies.blocks import blocks
from tenfold.policies.clip import clip
from tenfold.policies.tail import tail
from tenfold.policies.tenfold import tenfold
from tenfold.policies.threshold import sliding, threshold
from tenfold.policies.tiers import tiers
from tenfold.policy import Policy

POLICIES: Mapping[str, Callable[..., Policy]] = MappingProxyType(
    {
        "blocks": blocks,
        "clip": clip,
        "tail": tail,
        "sliding": sliding,
        "tenfold": tenfold,
        "threshold": threshold,
        "tiers": tiers,
    }
)


def policy_named(name: str) -> Callable[..., Policy]:
    """Returns the preset function of that name. Raises `UsageError` that suggests the nearest valid name."""
    preset = POLICIES.get(name)
    if preset is None:
        near = get_close_matches(name, POLICIES, n=1)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no policy is called {name!r}{suggestion} There are: {', '.join(sorted(POLICIES))}")
    return preset


__all__ = ["POLICIES", "policy_named", "tenfold"]
