"""The preset `clip`: chunks folded into batches, an archive of batches at the head of the view, and recursive merging.

The design's words: a conversation is a session, and a turn's compaction a Block. The archival memory is the log (and a
user's `Archive`, if there is one). Re-summarising is a merge, `keepRecent` the kept tail, the database the store.
Nothing is deleted: messages stay in the log as originals, and merged batches stay as the sources of their parent.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy, check_least, is_share
from tenfold.compaction.summarize.write import SummarySettings, find_places, interpolate
from tenfold.compaction.trigger.limits import Limits, clamp_limits, divide_window, take_share
from tenfold.core.meter.counters import Counter
from tenfold.core.record.ask import DEFAULT_TIMEOUT
from tenfold.designs.clip.batch_writer import BatchWriter
from tenfold.designs.clip.fold_stage import FoldStage, ImportanceScoringConfig
from tenfold.designs.clip.prompt import check_template
from tenfold.errors import UsageError


class BudgetTrigger(Struct, frozen=True):
    """Triggers above a share of the window less the overhead of system prompt, tools and answer.

    A Reading's tokens already include system prompt and tools, so only the answer is subtracted here.
    """

    context_budget: float = 0.80
    target_share: float = 0.40

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - shares of the whole need no floor
        """Triggers above the limit, not at it."""
        parts = divide_window(window, output_reserve)
        soft = take_share(self.context_budget, window) - (window - parts.usable)
        target = take_share(self.target_share, parts.usable)
        return clamp_limits(parts, soft=soft, target=target, inclusive=False)


_FOLD, _FOLDING, _BUDGET = FoldStage(), BatchWriter(), BudgetTrigger()


def clip(  # noqa: PLR0913 - the settings of the published design, each by its name
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    chunk_size: int = _FOLDING.chunk_size,
    keep_recent: int = _FOLD.keep_recent_messages,
    max_summary_tokens: int = _FOLDING.max_summary_tokens,
    clip_first: int = _FOLDING.clip_first,
    clip_last: int = _FOLDING.clip_last,
    max_chunk_tokens: int = _FOLDING.max_chunk_tokens,
    max_retries: int = _FOLDING.max_retries,
    compaction_timeout: int = int(DEFAULT_TIMEOUT * 1_000),
    context_budget: float = _BUDGET.context_budget,
    prompt: str = "",
    persona: str = "",
    scoring: ImportanceScoringConfig | None = _FOLD.scoring,
) -> Policy:
    """The policy `clip`: disjoint batches of what was said, the earliest and the latest of them in view.

    `compaction_timeout` is in milliseconds. `prompt` is a template of your own with the place `{messages}`, and
    optionally `{persona}` and `{existing_summary}`. Raises `UsageError` for other places and for impossible sizes.
    """
    check_least({"chunk_size": chunk_size, "max_summary_tokens": max_summary_tokens}, 1)
    check_least({"keep_recent": keep_recent, "clip_first": clip_first, "clip_last": clip_last}, 0)
    check_least({"max_chunk_tokens": max_chunk_tokens, "max_retries": max_retries}, 0)
    check_least({"compaction_timeout": compaction_timeout}, 1)
    if not is_share(context_budget):
        raise UsageError(f"context_budget is {context_budget!r}; it is a share of the window, for instance 0.8")
    if prompt and "messages" not in find_places(check_template(prompt)):
        raise UsageError("the prompt has no place {messages}, so the model would be shown nothing: add it")
    settings = replace(
        summary or SummarySettings(),
        role="system",
        on_failure="abort",
        timeout=compaction_timeout / 1_000,
        facts_per_text=1 / 3,  # a quarter of the archive
    )
    return Policy(
        name="clip",
        trigger=BudgetTrigger(context_budget=context_budget),
        stages=(FoldStage(keep_recent, scoring),),
        counter=counter,
        summary=settings,
        checks=("user_message",),
        writer=BatchWriter(
            chunk_size=chunk_size,
            max_summary_tokens=max_summary_tokens,
            clip_first=clip_first,
            clip_last=clip_last,
            max_chunk_tokens=max_chunk_tokens,
            max_retries=max_retries,
            prompt=interpolate(prompt, {"persona": persona}),
        ),
    )
