"""Simulated agents that work on far past their window, in windows of every size, and what was sent for them.

Each run draws a policy, a window, a system prompt, the tokens kept for the answer, how the provider reports usage and
how the summary model behaves. A host then resends its whole history before every call. Two things may never happen: a
request above the limit although a smaller one was possible, and a call of the summary model that cannot help.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import Attempt, Entry, get_message
from tenfold.core.wire import WIRES
from tenfold.models.model import Model
from tenfold.session import Session, SessionAddress
from tests.laws.conversations import COUNTER, FILLER, read_entries
from tests.laws.presets import NAMES, Counted, Good, build_answerer
from tests.stores import open_law_store

Usage = Literal["missing", "right", "more", "less", "wrong"]
Behaviour = Literal["none", "good", "failing", "hanging", "rambling"]
USAGES: tuple[Usage, ...] = ("missing", "right", "more", "less", "wrong")
BEHAVIOURS: tuple[Behaviour, ...] = ("none", "good", "failing", "hanging", "rambling")
LEAST_EXCERPT = 260
"""Tokens that the shortest excerpt of a long message takes, with the sentence that says where to read the rest."""
LEAST_SUMMARY = 260
"""Tokens of the smallest summary in its frame, as the longest of the published designs writes it."""
MOST_FAILURES = 2
"""Compactions in a row in which the model gave nothing usable, after which asking it again at once is in vain."""
ROUNDING = 2
"""Tokens by which a size that a slope gives may be off."""
_WORDS = FILLER.format(n=7).split()


class Run(Struct, frozen=True):
    """What one simulated agent is given. `window`, `system`, `output` and `size` (of a usual message) are tokens."""

    number: int
    policy: str
    window: int
    system: int
    output: int
    usage: Usage
    behaviour: Behaviour
    size: int
    requests: int


class Findings(Struct):
    """What went wrong in a run, as sentences, and how much was done."""

    requests: int = 0
    compactions: int = 0
    model_calls: int = 0
    above_limit: list[str] = []
    vain_calls: list[str] = []
    impossible: int = 0


def draw_run(number: int) -> Run:
    """Draws the run of this number."""
    rng = random.Random(number)  # noqa: S311 - a simulation, not a secret
    window = int(512 * (200_000 / 512) ** rng.random())
    return Run(
        number,
        NAMES[number % len(NAMES)],
        window,
        system=int(window * rng.uniform(0.05, 0.98)),
        output=int(window * 300 ** rng.random() / 100),
        usage=rng.choice(USAGES),
        behaviour=rng.choice(BEHAVIOURS),
        size=max(8, int(window * rng.choice((0.01, 0.03, 0.1)))),
        requests=16 if window > 50_000 else 40,
    )


# -- the model ---------------------------------------------------------------------------------------------------------


class Failing(Counted):
    """Every call fails: at once, or because no answer comes in time."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs

    def build_answer(self, ask: SummaryAsk) -> Answer:
        if self.hangs:
            return Answer(error=f"no answer within {ask.timeout:g} s", timed_out=True, spent=ModelCost(calls=1))
        return Answer(error="the provider is down", spent=ModelCost(calls=1))


class Rambling(Counted):
    """Every answer is far too long, and cut off."""

    def build_answer(self, ask: SummaryAsk) -> Answer:
        return Answer(text="And on it went. " * ask.max_tokens, finish_reason="length", spent=ModelCost(calls=1))


def _build_model(run: Run) -> Model | None:
    match run.behaviour:
        case "none":
            return None
        case "good":
            return Good(build_policy(run.policy, COUNTER, models=("m",)).summary)
        case "rambling":
            return Rambling()
        case "failing" | "hanging":
            return Failing(hangs=run.behaviour == "hanging")


# -- the host ----------------------------------------------------------------------------------------------------------

ChatMessage = dict[str, Any]


def _write_text(rng: random.Random, tokens: int) -> str:
    """Writes a text of about so many tokens."""
    line = " ".join(rng.choices(_WORDS, k=12))
    return (line + f" {rng.randrange(10_000)}\n") * max(1, tokens * 4 // len(line)) if tokens > 12 else line[:40]


def _draw_size(rng: random.Random, run: Run) -> int:
    """Draws the tokens of a message: mostly about the usual size, now and then larger than the window."""
    factor = rng.choice((0.2, 0.5, 1.0, 1.0, 1.5, 3.0))
    return int(run.window * rng.uniform(0.5, 1.6)) if rng.random() < _GIANT_SHARE else int(run.size * factor)


_GIANT_SHARE = 0.03


def _work(rng: random.Random, run: Run, number: int) -> list[ChatMessage]:
    """What happens between two requests: an answer and the user's next message, or a tool call and its result."""
    if rng.random() < 0.35:
        return [
            {"role": "assistant", "content": _write_text(rng, run.size // 4)},
            {"role": "user", "content": _write_text(rng, _draw_size(rng, run) // 2)},
        ]
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "read", "arguments": json.dumps({"path": f"lib/part{number}.py"})},
    }
    result = {"role": "tool", "tool_call_id": f"call_{number}", "content": _write_text(rng, _draw_size(rng, run))}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def count_tokens(messages: Sequence[ChatMessage]) -> int:
    """Counts a list as the policy's counter does: a provider whose tokenizer we know."""
    decoded = WIRES["openai-chat"].decode([json.dumps(message).encode() for message in messages])
    return sum(measure_messages(list(decoded), COUNTER))


_SCALES: dict[Usage, float] = {"more": 1.3, "less": 0.8}


def simulate(run: Run) -> Findings:
    """Plays a run to its end."""
    rng = random.Random(f"work of {run.number}")  # noqa: S311 - a simulation, not a secret
    models = () if run.behaviour == "none" else ("m",)
    model = _build_model(run)
    place = SessionAddress(open_law_store(), f"run-{run.number}")
    policy = replace(build_policy(run.policy, COUNTER, models=models), can_prepare=False)
    session = Session.create(place, policy, answerer=build_answerer(model))
    history: list[ChatMessage] = [
        {"role": "system", "content": _write_text(rng, run.system)},
        {"role": "user", "content": _write_text(rng, run.size)},
    ]
    found = Findings()
    scale = _SCALES.get(run.usage, 1.0)
    limit = run.window - (run.output if run.output < run.window else 0)
    for number in range(run.requests):
        request = {"model": "m", "messages": list(history), "max_tokens": run.output}
        calls = model.calls if isinstance(model, Counted) else 0
        session.requests.sync_request(request, window=run.window, recall="none", wire="openai-chat")
        held = read_entries(session)
        sent = session.before_model(request, window=run.window)["messages"]
        found.requests += 1
        tokens = int(count_tokens(sent) * scale)
        if tokens > limit and not (run.usage == "missing" or (run.usage == "right" and number)):
            _report_refusal(session, run)  # nothing but the provider knows that it is too long
            tokens = int(count_tokens(session.before_model(request, window=run.window)["messages"]) * scale)
        _judge_calls(session, run, held, (model.calls - calls) if isinstance(model, Counted) else 0, found)
        if tokens > limit + ROUNDING:
            least = _find_least(history) * (scale if number else max(scale, 1.0))  # before a report, only we count
            if least <= limit:
                why = session.outcome.reason if session.outcome is not None else "no check"
                found.above_limit.append(
                    f"{run}: request {number} takes {tokens:,} of {limit:,}, although {least:,.0f} would do: {why}"
                )
            else:
                found.impossible += 1
        _report_usage(session, run, rng, tokens)
        history += _work(rng, run, number)
    found.compactions = sum(isinstance(entry, Block) for entry in read_entries(session))
    found.model_calls = model.calls if isinstance(model, Counted) else 0
    return found


def _find_least(history: Sequence[ChatMessage]) -> int:
    """The least that can be sent: the system prompt, the end of the conversation shortened, and a summary."""
    request = next(m for m in reversed(history) if m["role"] == "user")
    kept = min(count_tokens([request]), LEAST_EXCERPT)
    return count_tokens(history[:1]) + kept + LEAST_SUMMARY


def _report_refusal(session: Session, run: Run) -> None:
    call = session.compactor.build_call(window=run.window)
    session.compact(replace(call, demand="overflow", output_reserve=run.output))


def _report_usage(session: Session, run: Run, rng: random.Random, tokens: int) -> None:
    if run.usage == "missing":
        return
    reported = rng.choice((0, tokens // 3, tokens, tokens * 2, tokens * 9)) if run.usage == "wrong" else tokens
    session.after_model({"usage": {"prompt_tokens": reported, "completion_tokens": 9}})


_MODEL_RUNGS = ("model", "stricter", "next_model")


def _judge_calls(session: Session, run: Run, held: Sequence[Entry], calls: int, found: Findings) -> None:
    """Finds model calls in vain: right after failures in a row, or for a summary that is due again at once."""
    if not calls:
        return
    failures = grown = 0
    for entry in reversed(held):
        message = get_message(entry)
        grown += sum(measure_messages([message], COUNTER)) if message is not None and not failures else 0
        if not isinstance(entry, Block | Attempt) or not entry.spent.calls:
            continue
        is_failure = isinstance(entry, Attempt) or entry.rung not in _MODEL_RUNGS
        if not is_failure:
            break
        failures += 1
    enough = session.policy.get_minimum_growth(run.window)
    if failures >= MOST_FAILURES and grown < enough:
        found.vain_calls.append(
            f"{run}: {calls} calls after {failures} compactions without a usable answer, and {grown} of {enough} tokens"
        )
    outcome = session.outcome
    if outcome is not None and outcome.rung in _MODEL_RUNGS and outcome.target_missed:
        call = session.compactor.build_call(window=run.window)
        reading, limits = session.compactor.take_reading_with_limits(replace(call, output_reserve=run.output))
        if limits.get_need(reading.tokens) in ("soft", "hard"):
            found.vain_calls.append(f"{run}: {calls} calls for a summary that is due again: {outcome.reason}")
