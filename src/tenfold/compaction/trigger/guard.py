"""Decides whether to act now: a trigger's limits, compared with what the log says was already tried.

Pure: the history is derived from the Blocks, retractions and attempts on the path, and nothing is hidden state. Every
policy has the same guards:

- an unknown window never triggers;
- nothing is repeated if no message followed and the same was asked (law 6);
- no automatic check acts while the user has switched automatic compaction off for the session;
- there is no second attempt unless the path grew. After two fruitless ones, a Block or an undo, it must have grown by
  the minimum growth (the breaker then half-opens);
- the hard limit overrides these guards. But a third attempt on an unchanged path is refused, and a limit that cannot
  be satisfied is reported once.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.trigger.limits import Decision, Demand, Limits, Need
from tenfold.core.record.entry import Attempt
from tenfold.core.record.token_reading import ProviderTokens, Reading

MAX_FRUITLESS = 2


class CompactionHistory(Struct, frozen=True):
    """What happened on this path since the newest live Block or retraction.

    `messages_since` counts the messages after it (all messages, if there is none). `growth` is what came to the view
    after the newest Block, retraction or attempt, as the provider counts it (None: there was none). `attempts` lie
    after that Block or retraction. `retracted` says that it was a retraction. `is_repeat` says that policy, target and
    demand equal those of the newest live Block, `is_unsatisfiable` that it was made after it was reported that nothing
    fits the limit. `is_switched_off` says that the user has switched automatic compaction off.
    """

    messages_since: int = 0
    growth: ProviderTokens | None = None
    attempts: tuple[Attempt, ...] = ()
    retracted: bool = False
    is_repeat: bool = False
    is_unsatisfiable: bool = False
    is_switched_off: bool = False


SWITCHED_OFF = (
    "the user switched automatic compaction off for this session; it is done when asked for, or at the limit of "
    "{limit:,} tokens ({tokens:,} now). `Session.switch_auto` or the session's page in `tenfold inspect` switches it "
    "on again"
)
"""Why a check does nothing although the trigger fires."""


def decide(  # noqa: PLR0913 - every one is a different fact, and the pure function has nowhere else to take it from
    reading: Reading,
    limits: Limits | None,
    demand: Demand,
    history: CompactionHistory,
    *,
    to: ProviderTokens | None = None,
    least: ProviderTokens,
    minimum_growth: ProviderTokens,
) -> Decision[ProviderTokens]:
    """Decides whether to compact a view of this Reading, and down to what.

    `to` is an explicit target and overrides `limits` (None: the window is unknown). `least` is what nothing can go
    below. `minimum_growth` is the policy's; half of the way from the target to the trigger is always enough.
    """
    tokens = reading.tokens
    need: Need = "soft"
    if to is not None:
        idle = Decision(False, need, to, to if limits is None else limits.hard, "nothing", False, "")
    elif limits is None:
        return _build_unknown(reading, demand)
    else:
        need = "hard" if demand == "overflow" else limits.get_need(tokens)
        minimum_growth = min(minimum_growth, ProviderTokens(max(1, (limits.soft - limits.target) // 2)))
        idle = Decision(False, need, _find_target(limits, demand, tokens), limits.hard, "nothing", False, "")
        if demand == "check" and need in ("none", "warn"):
            return replace(idle, status="", reason=_explain_below(reading, limits))
    if history.is_repeat and history.messages_since == 0:
        return replace(idle, reason="the newest Block did just this and no message followed it")
    if limits is not None and least > limits.hard:
        return _build_unsatisfiable(idle, reading, demand, history, least=least)
    target = max(idle.target, least)
    idle = replace(idle, target=target, target_missed=target > idle.target)
    if tokens <= target:
        return replace(idle, reason=_explain_small(reading, idle, least))
    refusal = "" if to is not None else _find_refusal(demand, need, history, minimum_growth)
    if refusal:
        return replace(idle, reason=refusal)
    if history.is_switched_off and demand == "check" and to is None and need != "hard":
        return replace(idle, reason=SWITCHED_OFF.format(limit=idle.limit, tokens=tokens))
    wanted = need if need in ("soft", "hard") else "soft"
    is_recorded = idle.target_missed and _is_recorded(demand, history)
    reason = _explain_action(reading, limits, demand, idle)
    return replace(idle, should_act=True, need=wanted, status="", reason=reason, already_recorded=is_recorded)


def _find_target(limits: Limits, demand: Demand, tokens: ProviderTokens) -> ProviderTokens:
    """Returns the target. If the provider refused what we read as fitting, it is lowered by as much as we misread."""
    if demand != "overflow" or tokens >= limits.hard:
        return limits.target
    return max(ProviderTokens(1), limits.target * tokens // limits.hard)


def _find_refusal(demand: Demand, need: Need, history: CompactionHistory, minimum_growth: ProviderTokens) -> str:
    """Explains why another try would be in vain, "" if it may be made. A person's request is not held back."""
    attempts, grown = len(history.attempts), history.growth
    if grown is None or demand == "manual":
        return ""
    if need == "hard":
        if attempts >= MAX_FRUITLESS and grown == 0:
            return (
                f"{attempts} attempts on this path came to nothing and nothing was added since; the last said: "
                f"{history.attempts[-1].reason}"
            )
        return ""
    if attempts and attempts < MAX_FRUITLESS:
        last = history.attempts[-1].reason
        return "" if grown > 0 else f"the last attempt came to nothing ({last}) and nothing was added since"
    if grown >= minimum_growth:
        return ""
    since = "the compaction was undone" if history.retracted else "the newest Block"
    if attempts:
        since = f"{attempts} attempts came to nothing"
    return f"the view grew by {grown:,} tokens since {since}; it is tried again from {minimum_growth:,} on"


def _build_unsatisfiable(
    idle: Decision[ProviderTokens],
    reading: Reading,
    demand: Demand,
    history: CompactionHistory,
    *,
    least: ProviderTokens,
) -> Decision[ProviderTokens]:
    reason = (
        f"nothing can bring the view under {idle.limit:,} tokens: system prompt, current request, open step, pins and "
        f"a minimal summary take {least:,}, {least - idle.limit:,} too many (the view has {reading.tokens:,}); "
        "use a larger window, a smaller output reserve, or unpin entries"
    )
    is_recorded = _is_recorded(demand, history)
    return replace(idle, status="unsatisfiable", target_missed=True, reason=reason, already_recorded=is_recorded)


def _is_recorded(demand: Demand, history: CompactionHistory) -> bool:
    """Whether the log says already that nothing fits the limit. A person who asks is told again."""
    is_known = history.is_unsatisfiable or any(a.status == "unsatisfiable" for a in history.attempts)
    return demand != "manual" and is_known


def _build_unknown(reading: Reading, demand: Demand) -> Decision[ProviderTokens]:
    what = f"the model's window is not known, so {reading.tokens:,} tokens cannot be held against it"
    return Decision(
        False,
        "hard" if demand == "overflow" else "none",
        ProviderTokens(0),
        ProviderTokens(0),
        "nothing",
        False,
        f"{what}; name a window (--window, window=) or a target (--to, to=)",
    )


def _explain_below(reading: Reading, limits: Limits) -> str:
    relation = "below" if limits.inclusive else "not above"
    return f"{reading.tokens:,} tokens ({reading.source}) are {relation} the trigger of {limits.soft:,}"


def _explain_small(reading: Reading, idle: Decision[ProviderTokens], least: ProviderTokens) -> str:
    if idle.target_missed:
        return f"{reading.tokens:,} tokens are no more than the least that must stay, {least:,}"
    return f"{reading.tokens:,} tokens are already within the target of {idle.target:,}"


def _explain_action(reading: Reading, limits: Limits | None, demand: Demand, idle: Decision[ProviderTokens]) -> str:
    aim = f"down to {idle.target:,}" + (", the least that must stay" if idle.target_missed else "")
    size = f"{reading.tokens:,} tokens ({reading.explain_source()})"
    match demand:
        case "check" if limits is not None:
            if idle.need == "hard":
                return f"{size} are above the hard limit of {limits.hard:,}: {aim}"
            return f"{size} are {'at or ' if limits.inclusive else ''}above the trigger of {limits.soft:,}: {aim}"
        case "check" | "manual":
            return f"{size}, asked for: {aim}"
        case "tool":
            return f"{size}, the model asked for it: {aim}"
        case "overflow":
            return f"{size}, the provider refused the request as too long: {aim}"
        case _:
            assert_never(demand)
