"""Many-turn sessions against a guard, as the design of `threshold` tests itself: every row of its table of simulations.

A host keeps its whole list and appends to it; each model step sends what the guard's hook leaves of it. What the
provider would count is the design's own rule of thumb over the request that was sent, times the row's ratio. Counted
are the calls that the summariser got, not the steps after the first compaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import Attempt
from tenfold.designs.threshold import Context, ContextGuard, Option, estimate_request, with_max_tokens
from tenfold.models import ScriptedModel, ScriptedReply
from tenfold.session import Session

WORDS = "nothing else of interest was found in this part and so the work went on as it had been planned before "
SUMMARY = (
    "## Current State\nGoing on very well\n## Key Information\nnone so far\n## Context & Decisions\nnone\n"
    "## Exact Next Steps\nGo on"
)
"""The summariser's answer: 120 characters, as in the original, under the headings that it is checked for."""
REPLY = 120
MINIMAL_SUMMARY = 250
"""Estimated tokens of the smallest summary with its delimiter, and of the continuation around the user's request."""
Tools = Callable[[int], Sequence[int]]
"""The characters of each tool result in a turn, which is counted from 1; none for a turn without tools."""
Report = Callable[[int], int]
Presence = Callable[[int], float]
"""The part of the hidden tokens that is there at a step, which is counted from 0."""


def use_no_tools(_turn: int) -> Sequence[int]:
    """A conversation in words."""
    return ()


def build_tools(*sizes: int, every: int = 1, only: int = 0) -> Tools:
    """Results of these sizes at every n-th turn, or in one turn alone."""
    return lambda turn: sizes if (turn == only if only else turn % every == 0) else ()


def report_truly(real: int) -> int:
    """A provider that reports what it counted."""
    return real


def hide_always(_step: int) -> float:
    """A provider that counts the same beside the view at every step."""
    return 1.0


class Setup(Struct, frozen=True):
    """One row: sizes in characters, `window` in tokens. `parallel` tools are one batch and answered together.

    `hidden` are tokens that the provider counts and the guard never sees, as far as `presence` has them there.
    `report` makes the reported tokens of the counted ones; 0 reports nothing. `summary` is what the summariser answers,
    however few words it is asked for.
    """

    window: int
    turns: int
    user: int
    system: int
    ratio: float
    usage: bool = True
    tools: Tools = use_no_tools
    parallel: bool = False
    hidden: int = 0
    report: Report = report_truly
    presence: Presence = hide_always
    summary: str = SUMMARY


class Ran(Struct, frozen=True):
    """What came of a row. `peak` in the provider's tokens; `called` are the steps at which the summariser was asked,
    and `called_turns` the turns of the user.

    `overflows` are the steps whose request exceeded the window although a smaller one could have been sent.
    """

    steps: int
    calls: int
    peak: int
    called: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    attempts: tuple[Attempt, ...]
    session: Session
    overflows: tuple[int, ...] = ()
    called_turns: tuple[int, ...] = ()
    reals: tuple[int, ...] = ()


def make_text(size: int, seed: int) -> str:
    """So many characters of plain words."""
    start = f"In part {seed} "
    return (start + WORDS * (size // len(WORDS) + 1))[:size]


class Host:
    """Keeps the raw list, and calls the guard's hooks around each model step."""

    def __init__(self, setup: Setup, *options: Option) -> None:
        self.setup, self.options = setup, options
        self.model = ScriptedModel([ScriptedReply(setup.summary)], repeat=True)
        self.context = Context("agent", "s")
        self.restart()
        self.contents: list[dict[str, Any]] = []
        self.reals: list[int] = []
        self.called: list[int] = []
        self.called_turns: list[int] = []
        self.outcomes: list[Outcome] = []
        self.overflows: list[int] = []

    def restart(self) -> None:
        """Goes on in another process: nothing is left but the host's list and its state, which were stored as JSON."""
        self.guard = ContextGuard().add(
            "agent", self.model, with_max_tokens(self.setup.window), *self.options, counter=CharacterCounter()
        )
        self.plugin = self.guard.plugin_config()
        self.context = Context("agent", "s", json.loads(json.dumps(self.context.state)))

    @property
    def session(self) -> Session:
        return self.guard.strategies["agent"].get_session(self.context)

    def run_step(self, answer: list[dict[str, Any]]) -> dict[str, Any]:
        """One model step: the request as it was sent, and the answer added to the list."""
        before = len(self.model.asks)
        request: dict[str, Any] = {"system": make_text(self.setup.system, 0), "messages": list(self.contents)}
        self.plugin.before_model(self.context, request)
        if self.session.outcome is not None:
            self.outcomes.append(self.session.outcome)
        self.called.extend([len(self.reals)] * (len(self.model.asks) - before))
        if (real := self.count(request)) > self.setup.window >= self.count_least(request):
            self.overflows.append(len(self.reals))
        self.reals.append(real)
        self.contents.append({"role": "assistant", "content": answer})
        if self.setup.usage:
            usage = {"input_tokens": self.setup.report(self.reals[-1]), "output_tokens": 30}
            self.plugin.after_model(self.context, {"usage": usage})
        return request

    def count(self, request: dict[str, Any]) -> int:
        """What the provider counts of the next request."""
        hidden = int(self.setup.hidden * self.setup.presence(len(self.reals)))
        return hidden + int(estimate_request(request) * self.setup.ratio)

    def count_least(self, request: dict[str, Any]) -> int:
        """What it would count of the least to be sent: the newest step, the user's words, and a minimal summary."""
        asked = max(
            at for at, m in enumerate(self.contents) if m["role"] == "user" and m["content"][0]["type"] == "text"
        )
        newest = self.contents[max(asked + 1, len(self.contents) - 2) :]
        kept = {**request, "messages": [self.contents[asked], *newest]}
        return self.count(kept) + int(MINIMAL_SUMMARY * self.setup.ratio)

    def run_turn(self, number: int) -> None:
        """A user message, the tools of this turn, and the model's closing words."""
        said = {"type": "text", "text": make_text(self.setup.user, number)}
        self.contents.append({"role": "user", "content": [said]})
        sizes = list(self.setup.tools(number))
        batches = [sizes] if self.setup.parallel and sizes else [[size] for size in sizes]
        for index, batch in enumerate(batches):
            ids = [f"call-{number}-{index}-{n}" for n in range(len(batch))]
            self.run_step([{"type": "tool_use", "id": i, "name": "look", "input": {"part": number}} for i in ids])
            results = [
                {"type": "tool_result", "tool_use_id": i, "content": make_text(size, number)}
                for i, size in zip(ids, batch, strict=True)
            ]
            self.contents.append({"role": "user", "content": results})
        self.run_step([{"type": "text", "text": make_text(REPLY, number)}])


def run(setup: Setup, *options: Option, restart_every: int = 0) -> Ran:
    """Runs a row to its end. With `restart_every`, the process is another one after so many turns."""
    host = Host(setup, *options)
    for number in range(1, setup.turns + 1):
        before = len(host.called)
        host.run_turn(number)
        host.called_turns.extend([number] * (len(host.called) - before))
        if restart_every and number % restart_every == 0:
            host.restart()
    session = host.session
    entries = session.address.store.read_entries(session.address.namespace, session.address.session)
    attempts = tuple(e for e in entries if isinstance(e, Attempt))
    called, outcomes = tuple(host.called), tuple(host.outcomes)
    return Ran(
        len(host.reals),
        len(called),
        max(host.reals),
        called,
        outcomes,
        attempts,
        session,
        tuple(host.overflows),
        tuple(host.called_turns),
        tuple(host.reals),
    )


def use_mixed_tools(turn: int) -> Sequence[int]:
    """200k_100Turns_MixedWorkload: a large result every 10th turn, two every 5th, a small one every 3rd."""
    if turn % 10 == 0:
        return (50_000,)
    if turn % 5 == 0:
        return (2_000, 5_000)
    return (1_000,) if turn % 3 == 0 else ()


def use_tool_burst(turn: int) -> Sequence[int]:
    """8k_ToolBurst: three at once, none, two."""
    return {1: (3_000,) * 3, 3: (1_000, 2_000)}.get(turn, ())


def use_parallel_bursts(turn: int) -> Sequence[int]:
    """200k_ToolBurst_10Parallel: ten at once, then two."""
    return {1: (5_000,) * 10, 2: (2_000, 10_000)}.get(turn, ())


def build_large_setup(
    turns: int,
    *,
    user: int = 200,
    system: int = 2_000,
    ratio: float = 2.0,
    usage: bool = True,
    tools: Tools = use_no_tools,
    parallel: bool = False,
) -> Setup:
    """A row in a window of 200,000."""
    return Setup(200_000, turns, user, system, ratio, usage, tools, parallel)


def build_small_setup(
    turns: int,
    *,
    user: int = 100,
    system: int = 500,
    ratio: float = 1.8,
    usage: bool = True,
    tools: Tools = use_no_tools,
    parallel: bool = False,
) -> Setup:
    """A row in a window of 8,000."""
    return Setup(8_000, turns, user, system, ratio, usage, tools, parallel)


class Simulation(Struct, frozen=True):
    """A row of the table: how it is set up, and how many calls it must make at least, and makes."""

    name: str
    setup: Setup
    least: int = 0
    calls: int = 0


SIMULATIONS: tuple[Simulation, ...] = (
    Simulation("200k_NormalConversation", build_large_setup(30, user=170)),
    Simulation(
        "200k_ToolHeavy", build_large_setup(20, system=3_000, tools=build_tools(10_000, 5_000, 20_000)), 1, calls=1
    ),
    Simulation("200k_SingleGiantToolResponse", build_large_setup(3, tools=build_tools(300_000, only=2))),
    Simulation("200k_ToolBurst_10Parallel", build_large_setup(3, tools=use_parallel_bursts, parallel=True)),
    Simulation("200k_NoUsageMetadata", build_large_setup(25, ratio=2.5, usage=False, tools=build_tools(8_000))),
    Simulation(
        "200k_LongRunning_50Turns",
        build_large_setup(50, system=3_000, ratio=2.2, tools=build_tools(5_000, 15_000, every=3)),
        calls=1,
    ),
    Simulation("200k_HighTokenRatio", build_large_setup(15, system=5_000, ratio=3.0, tools=build_tools(10_000))),
    Simulation(
        "200k_VeryHighTokenRatio_4x", build_large_setup(10, system=3_000, ratio=4.0, tools=build_tools(20_000)), calls=1
    ),
    Simulation("200k_LargeSystemPrompt", build_large_setup(20, system=50_000, tools=build_tools(5_000))),
    Simulation(
        "200k_MassiveToolBurst",
        build_large_setup(2, system=3_000, tools=build_tools(*[50_000] * 15, only=1), parallel=True),
        1,
        calls=1,
    ),
    Simulation(
        "200k_RepeatedCompactions",
        build_large_setup(60, system=5_000, tools=build_tools(30_000, 10_000, every=2)),
        2,
        calls=3,
    ),
    Simulation("200k_LateUsageMetadata: before", build_large_setup(5, usage=False, tools=build_tools(10_000))),
    Simulation("200k_LateUsageMetadata: after", build_large_setup(20, ratio=2.5, tools=build_tools(10_000))),
    Simulation(
        "200k_100Turns_MixedWorkload", build_large_setup(100, system=5_000, ratio=2.3, tools=use_mixed_tools), calls=2
    ),
    Simulation("8k_NormalConversation", build_small_setup(20, user=800), 1, calls=1),
    Simulation("8k_SmallToolCalls", build_small_setup(15, user=500, tools=build_tools(1_000)), 1, calls=1),
    Simulation("8k_LargeToolResponse", build_small_setup(3, tools=build_tools(20_000, only=2)), 1, calls=1),
    Simulation(
        "8k_NoUsageMetadata",
        build_small_setup(25, user=800, system=300, ratio=2.0, usage=False, tools=build_tools(1_500)),
        1,
        calls=5,
    ),
    Simulation("8k_LongRunning_40Turns", build_small_setup(40, user=600), 2, calls=2),
    Simulation("8k_ToolBurst", build_small_setup(3, tools=use_tool_burst, parallel=True)),
    Simulation(
        "8k_HighTokenRatio",
        build_small_setup(20, user=600, system=300, ratio=3.0, tools=build_tools(1_000)),
        1,
        calls=4,
    ),
    Simulation("8k_LargeSystemPrompt", build_small_setup(15, user=600, system=8_000), 1, calls=2),
    Simulation(
        "8k_OnlyToolResponses", build_small_setup(10, system=200, ratio=2.0, tools=build_tools(5_000)), 1, calls=3
    ),
    Simulation("8k_RapidFireShortMessages", build_small_setup(80, user=400, system=200), 2, calls=3),
    Simulation("8k_RepeatedCompactions", build_small_setup(40, user=400, tools=build_tools(2_000)), 3, calls=7),
    Simulation(
        "8k_AlternatingToolAndText",
        build_small_setup(30, user=500, system=400, ratio=2.0, tools=build_tools(3_000, every=2)),
        2,
        calls=5,
    ),
)
"""All that may compact. `200k_LateUsageMetadata` is two sessions in one row of the table."""
FUTILE: tuple[Simulation, ...] = (
    Simulation("CompactionNoInfiniteLoop", build_small_setup(5, user=500, system=12_000, ratio=2.5)),
    Simulation("8k_SystemPromptLargerThanWindow", build_small_setup(10, user=500, system=15_000)),
)
"""Those whose system prompt alone, as the provider counts it, is over the threshold."""
