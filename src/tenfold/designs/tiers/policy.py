"""The preset `tiers`: truncate large tool outputs, then blank old ones, then summarize what is older than the newest.

Each tier treats every output it is meant for, and then the view is measured. Once it is at the target, the remaining
tiers do not run. Where no usable summary can be had, what the first two tiers did is kept. The design's words: a *tier*
is a stage, *protected messages* are the newest ones, and *pruning* is the first two tiers. The *trigger* and *target
thresholds* are shares of what the window leaves after the output reserve. Its names as code: `tenfold.designs.tiers`.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy, Shares, check_least, is_share
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.compaction.summarize.prompt_files import with_sections
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.compaction.trigger.limits import FillTrigger
from tenfold.core.meter.counters import Counter
from tenfold.designs.tiers.stages import RemoveOutputsStage, ShortInputWriter, SummarizeOlderStage
from tenfold.errors import UsageError

OPENING = "<context-summary>"
CLOSING = """</context-summary>
Earlier messages are summarized above. Go on from where they ended, and do not ask again what they say already."""
HEADINGS = (
    "## Task State",
    "## Files",
    "## Tool History",
    "## Errors",
    "## Decisions",
    "## User Guidance",
    "## Next Steps",
)
DEFAULTS = FillTrigger(act_share=0.80, target_share=0.60, warning_share=0.70, output_reserve=16_000)
"""The published shares and the output reserve."""
_TRUNCATE, _REMOVE = TruncateOutputsStage(), RemoveOutputsStage()


def tiers(  # noqa: PLR0913 - the design's own settings, one each
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    trigger_threshold: float = DEFAULTS.act_share,
    target_threshold: float = DEFAULTS.target_share,
    warning_threshold: float = DEFAULTS.warning_share,
    output_reserve: int = DEFAULTS.output_reserve,
    max_tool_output_tokens: int = _TRUNCATE.max_tokens,
    truncate_keep_tokens: int = _TRUNCATE.keep_tokens,
    protected_messages: int = _REMOVE.keep_recent_messages,
    summary_role: str = "system",
) -> Policy:
    """Truncate, then clear, then summarize: three tiers that stop as soon as the target is reached.

    `summary_role` is the role of the message that carries a summary: "system" as in the design, or "user". A wire that
    takes no system message in the middle of its list has a system summary in its system prompt, where that stands right
    before it, else in a user message. Raises `UsageError` for settings that contradict each other.
    """
    thresholds = (target_threshold, trigger_threshold)
    if not all(map(is_share, thresholds)) or thresholds[0] >= thresholds[1]:
        raise UsageError(
            f"target_threshold is {target_threshold!r} and trigger_threshold {trigger_threshold!r}; they are shares of "
            "the window, the target the smaller one, for instance 0.6 and 0.8"
        )
    if not is_share(warning_threshold):
        raise UsageError(f"warning_threshold is {warning_threshold!r}; it is a share of the window, for instance 0.7")
    check_least({"output_reserve": output_reserve, "protected_messages": protected_messages}, 0)
    check_least({"max_tool_output_tokens": max_tool_output_tokens, "truncate_keep_tokens": truncate_keep_tokens}, 1)
    match summary_role:
        case "user" | "system":
            role: Literal["user", "system"] = summary_role
        case _:
            raise UsageError(f"summary_role is {summary_role!r}; a summary is a message of role 'user' or 'system'")
    return Policy(
        name="tiers",
        trigger=FillTrigger(trigger_threshold, target_threshold, warning_threshold, output_reserve),
        stages=(
            TruncateOutputsStage(max_tool_output_tokens, truncate_keep_tokens),
            RemoveOutputsStage(protected_messages),
            SummarizeOlderStage(protected_messages),
        ),
        counter=counter,
        summary=replace(
            with_sections(summary or SummarySettings(), "tenfold.designs.tiers"),
            headings=HEADINGS,
            on_failure="keep_stages",
            temperature=0.0,
            role=role,
            opening=OPENING,
            closing=CLOSING,
        ),
        shares=Shares(users=0.0),
        checks=("after_tools",),
        writer=ShortInputWriter(),
    )
