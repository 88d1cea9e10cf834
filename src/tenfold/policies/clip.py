"""The preset `clip`: chunks folded into batches, an archive of batches at the head of the view, and recursive merging.

The design's words: a conversation is a session, and a turn's compaction a Block. The archival memory is the log (and a
user's `Archive`, if there is one). Re-summarising is a merge, `keepRecent` the kept tail, the database the store.
Nothing is deleted: messages stay in the log as originals, and merged batches stay as the sources of their parent.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.errors import UsageError
from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Estimator
from tenfold.plan.stages.fold import Fold, ImportanceScoringConfig
from tenfold.policy import Policy
from tenfold.record.ask import TIMEOUT
from tenfold.summarize.folding import Folding
from tenfold.summarize.summarize import Settings
from tenfold.summarize.template import checked, interpolate, places
from tenfold.trigger.triggers import Budget

_FOLD, _FOLDING, _BUDGET = Fold(), Folding(), Budget()


def clip(  # noqa: PLR0913 - the settings of the published design, each by its name
    counter: Counter,
    *,
    summary: Settings | None = None,
    chunk_size: int = _FOLDING.chunk_size,
    keep_recent: int = _FOLD.keep_recent,
    max_summary_tokens: int = _FOLDING.max_summary_tokens,
    clip_first: int = _FOLDING.clip_first,
    clip_last: int = _FOLDING.clip_last,
    max_chunk_tokens: int = _FOLDING.max_chunk_tokens,
    max_retries: int = _FOLDING.max_retries,
    compaction_timeout: int = int(TIMEOUT * 1_000),
    context_budget: float = _BUDGET.context_budget,
    prompt: str = "",
    persona: str = "",
    scoring: ImportanceScoringConfig | None = _FOLD.scoring,
) -> Policy:
    """The policy `clip`: disjoint batches of what was said, the earliest and the latest of them in view.

    `compaction_timeout` is in milliseconds. `prompt` is a template of your own with the place `{messages}`, and
    optionally `{persona}` and `{existing_summary}`. Raises `UsageError` for other places and for impossible sizes.
    """
    numbers = {
        "chunk_size": (chunk_size, 1),
        "keep_recent": (keep_recent, 0),
        "max_summary_tokens": (max_summary_tokens, 1),
        "clip_first": (clip_first, 0),
        "clip_last": (clip_last, 0),
        "max_chunk_tokens": (max_chunk_tokens, 0),
        "max_retries": (max_retries, 0),
        "compaction_timeout": (compaction_timeout, 1),
    }
    for name, (value, at_least) in numbers.items():
        if value < at_least:
            raise UsageError(f"{name} is {value}; give a number of {at_least} or more")
    if not 0 < context_budget <= 1:
        raise UsageError(f"context_budget is {context_budget}; it is a share of the window, for instance 0.8")
    if prompt and "messages" not in places(checked(prompt)):
        raise UsageError("the prompt has no place {messages}, so the model would be shown nothing: add it")
    settings = replace(summary or Settings(), role="system", on_failure="abort", timeout=compaction_timeout / 1_000)
    if prompt:
        settings = replace(settings, batch=interpolate(checked(prompt), {"persona": persona}))
    return Policy(
        name="clip",
        trigger=Budget(context_budget=context_budget),
        stages=(Fold(keep_recent, scoring),),
        estimator=Estimator("anchored"),
        counter=counter,
        summary=settings,
        checks=("user_message",),
        writer=Folding(
            chunk_size=chunk_size,
            max_summary_tokens=max_summary_tokens,
            clip_first=clip_first,
            clip_last=clip_last,
            max_chunk_tokens=max_chunk_tokens,
            max_retries=max_retries,
        ),
    )
