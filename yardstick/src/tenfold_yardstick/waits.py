"""Measures how long an agent's calls wait for Tenfold, in a run whose scripted models take a known time.

Needs the extra `models`, since the agent runs on pydantic-ai. Import it only where it is used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, UsageLimits

from tenfold.apps.agent import Memory
from tenfold.compaction.engine.policy import tenfold
from tenfold.core.meter.counters import choose_counter
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore

SUMMARY_TEXT = "The parts were read one after the other; each holds code, commands and their output. Nothing is open."


class TimedRun(Struct, frozen=True):
    """How an agent runs: the number of its model calls, the window, and the seconds that its model and a summary take.

    The default times, 0.1 and 0.4 seconds, are a twentieth of 2 and 8. `result_length` is the characters of a tool
    result, and `said_length` those that the agent says in a step.
    """

    steps: int = 150
    window: int = 32_000
    call_seconds: float = 0.1
    summary_seconds: float = 0.4
    result_length: int = 2_000
    said_length: int = 500


class TimedMemory(Memory):
    """Records how long each call waited, and whether it was compacted for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.waits: list[tuple[float, bool]] = []

    async def prepare_model_request(
        self, ctx: RunContext[object], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Does what `Memory` does, and records the time."""
        live = len(self.session.view.state.live_blocks)
        start = time.perf_counter()
        prepared = await super().prepare_model_request(ctx, request_context)
        self.waits.append((time.perf_counter() - start, len(self.session.view.state.live_blocks) > live))
        return prepared


def make_summarizer(run: TimedRun) -> ScriptedModel:
    """Returns a model that writes every summary of a run, and takes the run's time for each."""
    return ScriptedModel([ScriptedReply(SUMMARY_TEXT, delay=run.summary_seconds)], sleep=time.sleep, repeat=True)


def measure_waits(
    text: str, run: TimedRun, summarizer: ScriptedModel | None, *, is_prepared: bool
) -> Sequence[tuple[float, bool]]:
    """Runs the agent over stretches of a text. Returns each call's wait in seconds, and whether it was compacted for.

    In each step the agent says a stretch of the text and its tool reads a longer one; at the end they start again.
    What is said cannot be left out without a summary, as tool results can. `summarizer` writes the summaries, code
    without one. With `is_prepared` a summary is prepared before it is due.
    """
    policy = replace(tenfold(choose_counter(None).counter), can_prepare=is_prepared)
    memory = TimedMemory(
        Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, answerer=Answerer(model=summarizer)),
        window=run.window,
    )
    calls = 0

    async def call_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal calls
        del messages, info
        calls += 1
        await asyncio.sleep(run.call_seconds)
        used = RequestUsage(output_tokens=10)
        if calls > run.steps:
            return ModelResponse([TextPart("Done.")], usage=used)
        said = TextPart(take_stretch(calls, run.said_length))
        return ModelResponse([said, ToolCallPart("look", {"part": calls})], usage=used)

    async def look(part: int) -> str:
        """Reads a part."""
        return take_stretch(part, run.result_length)

    def take_stretch(number: int, length: int) -> str:
        start = number * length % max(1, len(text) - length)
        return text[start : start + length]

    runner = Runner(FunctionModel(call_model), tools=[look], capabilities=[memory])
    asyncio.run(runner.run("Look at every part.", usage_limits=UsageLimits(request_limit=None)))
    return memory.waits
