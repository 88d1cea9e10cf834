"""The published design behind the presets `threshold` and `sliding`: a guard before every model call.

achetronic published it in achetronic/adk-utils-go.
"""

from __future__ import annotations

from tenfold.designs.threshold.context_guard import (
    DEFAULT_CONTEXT_WINDOW,
    DEFAULT_MAX_TOKENS,
    BuiltinRegistry,
    ContextGuard,
    Option,
    PluginConfig,
    Registry,
    Strategy,
    calibrate,
    compute_keep_recent,
    compute_max_output_tokens,
    compute_threshold,
    compute_word_limit,
    estimate_request,
    estimate_tokens,
    find_safe_split,
    find_split_index,
    new,
    render_host_todos,
    with_default_factor,
    with_max_compaction_attempts,
    with_max_tokens,
    with_sliding_window,
)
from tenfold.designs.threshold.guard_state import GuardState, export_state, get_state, load_state
from tenfold.designs.threshold.host_objects import Context

__all__ = [
    "DEFAULT_CONTEXT_WINDOW",
    "DEFAULT_MAX_TOKENS",
    "BuiltinRegistry",
    "Context",
    "ContextGuard",
    "GuardState",
    "Option",
    "PluginConfig",
    "Registry",
    "Strategy",
    "calibrate",
    "compute_keep_recent",
    "compute_max_output_tokens",
    "compute_threshold",
    "compute_word_limit",
    "estimate_request",
    "estimate_tokens",
    "export_state",
    "find_safe_split",
    "find_split_index",
    "get_state",
    "load_state",
    "new",
    "render_host_todos",
    "with_default_factor",
    "with_max_compaction_attempts",
    "with_max_tokens",
    "with_sliding_window",
]
