"""The preset `tail`: cut point, retained tail, iterative summary.

The design's words: a *turn* is an exchange, and a *split turn* one that the cut divides. The *cut point* is where the
recent tail begins (`cut.find_cut_point`). A *compaction entry* is a Block, and its *first kept entry* the first message
after what the Block covers. The *reserve* and the tokens to keep are those of `ReserveBudgets`, upper bounds for large
windows. The user's current request and pinned messages stay word for word, before the summary. Its names as code:
`tenfold.designs.tail`.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy, Shares, check_least
from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.compaction.summarize.prompt_files import load_prompt, with_sections
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.meter.counters import Counter
from tenfold.designs.tail.cut import CutStage, ReserveBudgets, ReserveTrigger
from tenfold.designs.tail.recorded_compaction import restore_compaction
from tenfold.designs.tail.writer import SplitWriter
from tenfold.errors import UsageError

OPENING = """The earlier part of this conversation was compacted; what follows in the tags stands for it.
<summary>"""
CLOSING = "</summary>"
PACKAGE = "tenfold.designs.tail"
"""Where the prompts lie."""
HEADINGS = (*BRANCH_HEADINGS, "## Critical Context")
DEFAULTS = ReserveBudgets()
"""The published sizes."""


def resolve_keep_tokens(keep: int, retain: int | None) -> int:
    """Returns the tokens to keep, which have two names.

    Raises `UsageError` if both are given and differ, and for what is no whole number of at least 1.
    """
    check_least({"keep_recent_tokens": keep} | ({} if retain is None else {"retain_recent_tokens": retain}), 1)
    if retain is None or keep in (retain, DEFAULTS.keep_recent_tokens):
        return keep if retain is None else retain
    raise UsageError(
        f"keep_recent_tokens is {keep:,} and retain_recent_tokens {retain:,}, which are two names of one setting: give "
        "one of them"
    )


def tail(
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    enabled: bool = True,
    reserve_tokens: int = DEFAULTS.reserve_tokens,
    keep_recent_tokens: int = DEFAULTS.keep_recent_tokens,
    retain_recent_tokens: int | None = None,
) -> Policy:
    """Above window - reserve, at the end of a run: everything before the newest tokens to keep becomes one summary.

    With `enabled` False only explicit demands compact. `retain_recent_tokens` is another name for
    `keep_recent_tokens`. A failed summary changes nothing. Raises `UsageError` for sizes that are not positive, and for
    two different ones under both names.
    """
    keep_recent_tokens = resolve_keep_tokens(keep_recent_tokens, retain_recent_tokens)
    check_least({"reserve_tokens": reserve_tokens}, 1)
    budgets = ReserveBudgets(reserve_tokens, keep_recent_tokens)
    narrative = int(0.8 * reserve_tokens)
    settings = replace(
        with_sections(summary or SummarySettings(), PACKAGE),
        headings=HEADINGS,
        on_failure="abort",
        opening=OPENING,
        closing=CLOSING,
        facts_per_text=1.0,
    )
    facts = Shares().facts
    rest = 1 - facts
    return Policy(
        name="tail",
        trigger=ReserveTrigger(budgets),
        stages=(CutStage(budgets),),
        counter=counter,
        summary=replace(settings, style="labelled", effort="high"),
        shares=Shares(
            tail=rest * keep_recent_tokens / (keep_recent_tokens + narrative),
            users=0.0,
            facts=facts,
            narrative=rest * narrative / (keep_recent_tokens + narrative),
        ),
        checks=("end_of_run",),
        writer=SplitWriter(load_prompt(PACKAGE, "prefix")),
        auto=enabled,
        restorer=restore_compaction,
    )
