"""The presets by name. They only compose parts, and have no logic of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tenfold.config.policy import Policy
from tenfold.config.presets.blocks import blocks
from tenfold.config.presets.clip import clip
from tenfold.config.presets.tail import tail
from tenfold.config.presets.tenfold import tenfold
from tenfold.config.presets.threshold import sliding, threshold
from tenfold.config.presets.tiers import tiers
from tenfold.errors import UsageError

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


def get_preset(name: str) -> Callable[..., Policy]:
    """Returns the preset function of that name. Raises `UsageError` that suggests the nearest valid name."""
    preset = POLICIES.get(name)
    if preset is None:
        near = get_close_matches(name, POLICIES, n=1)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no policy is called {name!r}{suggestion} There are: {', '.join(sorted(POLICIES))}")
    return preset


__all__ = ["POLICIES", "get_preset", "tenfold"]
