"""The preset `blocks`: a kept beginning, a compacted middle and a kept end, over a conversation of many runs.

The design's words: a *turn* is a step, a *loop* is a run, and a *compaction block* is a Block as one run sees it. The
overlay leaves the *keep first* part, turns *keep compacted* into lines, and cuts the outputs of *keep recent*. In a
session the overlay works run by run. A plain list, which belongs to no session, goes through the three levels of the
in-memory strategy (`Policy.in_memory_stages`). Where the overlay does not reach the target, kept steps become lines as
well, and then one summary covers what is older than the tail. Its names as code: `tenfold.designs.blocks`.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.setting_checks import check_least, is_share
from tenfold.compaction.plan.stages.condense import SummarizePrefixStage
from tenfold.compaction.plan.stages.levels import CutOutputsStage, DropBetweenStage, EarlierLinesStage
from tenfold.compaction.plan.stages.overlay import OverlayFallbackStage, OverlayStage
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.line_writer import LineWriter
from tenfold.compaction.trigger.limits import DEFAULT_WINDOW, HeadroomTrigger
from tenfold.core.meter.counters import Counter
from tenfold.errors import UsageError

HEADROOM = HeadroomTrigger()
OVERLAY = OverlayStage()
"""The published shares and sizes."""
LEVELS = DropBetweenStage()
"""The published numbers of messages that the in-memory strategy keeps."""


def check_shares(compact_at_pct: float, compact_budget_threshold_pct: float) -> None:
    """Raises `UsageError` for shares of the window that do not fit."""
    shares = (compact_budget_threshold_pct, compact_at_pct)
    if not all(map(is_share, shares)) or shares[0] >= shares[1]:
        raise UsageError(
            f"compact_at_pct is {compact_at_pct!r} and compact_budget_threshold_pct {compact_budget_threshold_pct!r}; "
            "they are shares of the window, the threshold the smaller one, for instance 0.9 and 0.05"
        )


def blocks(  # noqa: PLR0913 - the design's own settings, one each
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    compact_at_pct: float = HEADROOM.compact_at,
    compact_budget_threshold_pct: float = HEADROOM.least_headroom,
    system_prompt_tokens: int = HEADROOM.system_prompt_tokens,
    compaction_scope: int | Literal["token_budget"] = OVERLAY.scope,
    keep_first_turns: int = OVERLAY.keep_first_steps,
    keep_recent_turns: int = OVERLAY.keep_recent_steps,
    max_summary_tokens: int = OVERLAY.max_summary_tokens,
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines,
    keep_first: int = LEVELS.keep_first_messages,
    keep_recent: int = LEVELS.keep_recent_messages,
    focus_message: str = "",
) -> Policy:
    """Keep the first and the recent steps of the current run, one line for each step between, and for earlier runs.

    `compaction_scope` is how many earlier runs stay in view, or "token_budget". `keep_first` and `keep_recent` count
    messages, and belong to the in-memory levels. Raises `UsageError` for a size below zero or shares that do not fit.
    """
    if isinstance(compaction_scope, str) and compaction_scope != "token_budget":
        raise UsageError(f"compaction_scope is {compaction_scope!r}; give a number of 0 or more, or 'token_budget'")
    numbers = {
        "system_prompt_tokens": system_prompt_tokens,
        "compaction_scope": 0 if compaction_scope == "token_budget" else compaction_scope,
        "keep_first_turns": keep_first_turns,
        "keep_recent_turns": keep_recent_turns,
        "max_summary_tokens": max_summary_tokens,
        "tool_output_max_lines": tool_output_max_lines,
        "keep_first": keep_first,
        "keep_recent": keep_recent,
    }
    check_least(numbers, 0)
    check_shares(compact_at_pct, compact_budget_threshold_pct)
    settings = summary or SummarySettings()
    overlay = OverlayStage(
        keep_first_turns, keep_recent_turns, compaction_scope, max_summary_tokens, tool_output_max_lines
    )
    return Policy(
        name="blocks",
        trigger=HeadroomTrigger(compact_at_pct, compact_budget_threshold_pct, system_prompt_tokens),
        stages=(overlay, OverlayFallbackStage(keep_first_turns, max_summary_tokens), SummarizePrefixStage()),
        counter=counter,
        summary=replace(settings, instructions=focus_message or settings.instructions),
        checks=("before_call",),
        writer=LineWriter(),
        in_memory_stages=(
            CutOutputsStage(tool_output_max_lines),
            EarlierLinesStage(keep_recent),
            DropBetweenStage(keep_first, keep_recent),
        ),
        default_window=DEFAULT_WINDOW,
    )
