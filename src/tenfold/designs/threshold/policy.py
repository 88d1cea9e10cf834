"""The presets `threshold` and `sliding`: a calibrated threshold, and a summary with a continuation.

The design's words: a *strategy* is a policy, and *contents* are the messages of the view. The *real tokens* and the
*last heuristic* are the newest report and the estimate that belongs to it (`RatioEstimator`). The *buffer*
is that of `trigger.get_buffer`. The *watermark* is the last entry that the newest summary covers, found in the
log. A *turn* of the sliding window is an entry: a message, or the results of one step. The *summarizer* is the model of
the summary settings. Its names as code: `tenfold.designs.threshold`.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy, Shares
from tenfold.compaction.plan.pipeline import Stage
from tenfold.compaction.summarize.prompt_files import load_prompt, with_sections
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.meter.counters import Counter
from tenfold.designs.threshold.estimator import RatioEstimator
from tenfold.designs.threshold.stages import KeepRecentStage, WholeConversationStage
from tenfold.designs.threshold.trigger import CalibratedBufferTrigger, EntryTrigger
from tenfold.designs.threshold.writer import BriefingWriter

OPENING = "[Previous conversation summary]"
CLOSING = "[End of summary - conversation continues below]"
PACKAGE = "tenfold.designs.threshold"
"""Where the prompts lie."""
HEADINGS = ("## Current State", "## Key Information", "## Context & Decisions", "## Exact Next Steps")
DEFAULT_FACTOR = 2.0
"""Tokens per token counted by characters until usage is reported: the published value. 2.5 is safer where no usage is
ever reported.
"""
MAX_ATTEMPTS = 3
MAX_TURNS = 20


def threshold(
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    max_compaction_attempts: int = MAX_ATTEMPTS,
    default_factor: float | None = None,
) -> Policy:
    """At window - buffer: everything but an open step becomes a summary and a continuation that quotes the request.

    `max_compaction_attempts` limits the model calls for one summary (0 or less: 3). `default_factor` is the provider's
    tokens per counted token until usage is reported: by default 2.0 for a counter by characters, and for a model's own
    vocabulary what is known of that model's family.
    """
    attempts = max_compaction_attempts if max_compaction_attempts > 0 else MAX_ATTEMPTS
    return _build_policy("threshold", (WholeConversationStage(),), counter, summary, attempts, default_factor)


def sliding(
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    max_turns: int = MAX_TURNS,
    max_compaction_attempts: int = MAX_ATTEMPTS,
    default_factor: float | None = None,
) -> Policy:
    """At window - buffer, or when more than `max_turns` entries follow the newest summary: older ones become a summary.

    Three tenths of `max_turns` entries stay, at least 3, and the continuation stands after them. 0 or less means 20
    entries, and 3 attempts. `default_factor` is that of `threshold`.
    """
    attempts = max_compaction_attempts if max_compaction_attempts > 0 else MAX_ATTEMPTS
    turns = max_turns if max_turns > 0 else MAX_TURNS
    stages = (KeepRecentStage(turns, attempts),)
    policy = _build_policy("sliding", stages, counter, summary, attempts, default_factor)
    return replace(policy, trigger=EntryTrigger(turns))


def _build_policy(
    name: str,
    stages: tuple[Stage, ...],
    counter: Counter,
    summary: SummarySettings | None,
    attempts: int,
    factor: float | None,
) -> Policy:
    if factor is None and counter.name == "chars4":
        factor = DEFAULT_FACTOR
    settings = replace(
        with_sections(summary or SummarySettings(), PACKAGE),
        headings=HEADINGS,
        on_failure="ladder",
        opening=OPENING,
        closing=CLOSING,
    )
    return Policy(
        name=name,
        trigger=CalibratedBufferTrigger(),
        stages=stages,
        estimator=RatioEstimator(factor),
        counter=counter,
        summary=settings,
        shares=Shares(tail=0.0, users=0.0, facts=0.25, narrative=0.5),
        shrink_tokens=1,
        writer=BriefingWriter(attempts, load_prompt(PACKAGE, "briefing")),
    )
