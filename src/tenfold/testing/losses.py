"""The result of a survival check as a value, and the text that a failing test prints of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from tenfold.core.text.terminal_safe import to_one_line
from tenfold.testing.validity import GATES

MUST_HOLD, FALSE_FACTS, UNABLE = "must hold", "false facts", "unable"
MUST_NOT_HOLD = "must not hold"
_MAX_SHOWN = 5
"""How many losses of one group are listed."""
_WIDTH = 160
_PAIRS_ADVICE = "drop or keep a tool call together with its results, and all the calls of one answer together"
_ADVICE: Mapping[str, str] = {
    FALSE_FACTS: (
        "write into a summary only names and numbers that stand in what it summarises, and check it before use"
    ),
    MUST_NOT_HOLD: "drop a rule once the user has revoked it, or show the revocation with it",
    UNABLE: "raise the budget, or compact a session that is larger than what has to be kept of it",
    "orphan call": _PAIRS_ADVICE,
    "orphan result": _PAIRS_ADVICE,
    "split step": _PAIRS_ADVICE,
    "duplicate id": "keep each message once",
    "changed order": "keep messages in the session's order",
    "rejected role": "use the roles system, user, assistant and tool",
    "empty content": "leave a message out rather than empty",
    "changed input": "give back the messages that stay as they came, and change copies only",
    "two runs differ": "let nothing depend on chance, time or a new id (in a test: a model with fixed answers), or "
    "leave the gate out of `gates`",
}


class Loss(Struct, frozen=True):
    """One thing that went wrong: its group, and a description.

    The text comes from the session and is not yet safe to print.
    """

    group: str
    text: str


class SurvivalResult(Struct, frozen=True):
    """What was found in one session.

    Pairs are (before, after). Sizes are in tokens. `kept` maps each kind, "must hold" among them, to (kept, asked).
    """

    session: str
    messages: tuple[int, int]
    tokens: tuple[int, int]
    budget: int
    rounds: int
    kept: dict[str, tuple[int, int]]
    losses: tuple[Loss, ...] = ()


class SurvivalError(AssertionError):
    """Raised by `assert_survives`.

    The message says what was lost, of which kind, from where, and what to do about it.
    """


def format_losses(result: SurvivalResult, at_least: Mapping[str, float]) -> str:
    """Returns what a failing test prints of one session: its sizes, each group with its arithmetic, the next steps."""
    before, after = result.tokens
    times = "once" if result.rounds == 1 else f"{result.rounds} times"
    became = f"{before:,} tokens in {result.messages[0]} messages became {after:,} in {result.messages[1]}"
    budget = f"budget {result.budget:,} ({result.budget / max(before, 1):.0%}), compacted {times}"
    lines = [f"{result.session}: what has to survive its compaction does not", f"  {became}; {budget}"]
    groups = list(dict.fromkeys(loss.group for loss in result.losses))
    for group in groups:
        losses = [to_one_line(loss.text, _WIDTH) for loss in result.losses if loss.group == group]
        lines += ["", f"  {group}: {_format_arithmetic(result, group, len(losses), at_least)}"]
        lines += [f"    {loss}" for loss in losses[:_MAX_SHOWN]]
        if len(losses) > _MAX_SHOWN:
            lines.append(f"    and {len(losses) - _MAX_SHOWN} more")
    return "\n".join([*lines, "", *(f"  next: {step}" for step in _list_advice(result, groups))])


def _format_arithmetic(result: SurvivalResult, group: str, count: int, at_least: Mapping[str, float]) -> str:
    if group in result.kept:
        kept, asked = result.kept[group]
        return f"{kept} of {asked} kept ({kept / asked:.0%}) where {at_least.get(group, 1.0):.0%} has to be"
    if group == FALSE_FACTS:
        return f"{count} in the result that the session never held, where none may be"
    if group in GATES:
        return f"{count}, where none may be"
    return "no result"


def _list_advice(result: SurvivalResult, groups: Sequence[str]) -> Iterator[str]:
    """Yields what to do about each group of losses. All kinds of probes share one piece of advice."""
    kinds = [group for group in groups if group in result.kept and group != MUST_HOLD]
    if "over budget" in groups:
        yield f"let the compactor aim lower, or raise the budget to {result.tokens[1]:,} tokens"
    if kinds:
        shares = {kind: result.kept[kind][0] / result.kept[kind][1] for kind in kinds}
        lower = [f"lower at_least[{kind!r}] to {share:.2f}" for kind, share in shares.items() if share]
        lower += [f"take {kind!r} out of at_least" for kind, share in shares.items() if not share]
        yield f"carry over what is lost, word for word or nearly so; or {', '.join(lower)}"
    if MUST_HOLD in groups:
        yield "carry the texts of must_hold over, word for word or nearly so"
    yield from dict.fromkeys(_ADVICE[group] for group in groups if group in _ADVICE)
