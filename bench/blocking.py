"""How long an agent's calls wait for Tenfold, with the summary prepared in the background and without."""

from __future__ import annotations

import asyncio
import statistics
import time

from msgspec.structs import replace
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.speed import corpus
from tenfold.agent import Memory
from tenfold.drive import Answerer
from tenfold.llm.scripted import Reply, ScriptedModel
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import counter_for
from tenfold.policies import tenfold
from tenfold.session import Place, Session

WINDOW, STEPS = 32_000, 150
CALL, SUMMARY = 0.1, 0.4
"""Seconds that the agent's model and the one that writes the summary take: as a twentieth of 2 and 8 seconds."""
RESULT = 2_000
"""Characters of a tool's result."""


class Timed(Memory):
    """Notes how long each call waited, and whether it was compacted for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.waited: list[tuple[float, bool]] = []

    async def prepare_model_request(
        self, ctx: RunContext[object], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The same, timed."""
        live = len(self.session.view.marks.live)
        start = time.perf_counter()
        made = await super().prepare_model_request(ctx, request_context)
        self.waited.append((time.perf_counter() - start, len(self.session.view.marks.live) > live))
        return made


def agent(model: ScriptedModel | None, *, background: bool) -> Timed:
    """A run of so many steps; what its calls waited for."""
    counter = counter_for(None).counter
    policy = replace(tenfold(counter), prepares=background)
    session = Session.create(Place(MemoryStore(), "s"), policy, answerer=Answerer(model=model))
    memory = Timed(session, window=WINDOW)
    calls = 0

    async def works(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal calls
        del messages, info
        calls += 1
        await asyncio.sleep(CALL)
        used = RequestUsage(output_tokens=10)
        if calls > STEPS:
            return ModelResponse([TextPart("Done.")], usage=used)
        return ModelResponse([ToolCallPart("look", {"part": calls})], usage=used)

    async def look(part: int) -> str:
        """Reads a part."""
        return corpus()[part * RESULT : (part + 1) * RESULT]

    runner = Runner(FunctionModel(works), tools=[look], capabilities=[memory])
    asyncio.run(runner.run("Look at every part.", usage_limits=UsageLimits(request_limit=None)))
    return memory


def main() -> None:
    """One run of each kind."""
    print(
        f"{STEPS + 1} calls of an agent in a window of {WINDOW:,} tokens, policy tenfold\n"
        f"its model takes {CALL * 1_000:.0f} ms, the one that writes a summary {SUMMARY * 1_000:.0f} ms\n"
        "milliseconds that a call waits for Tenfold\n"
    )
    print(
        f"{'summary written':28} {'other calls, median':>20} {'p99':>6} {'compactions':>12} {'median':>8} {'most':>8}"
    )
    text = "The parts were read one after the other; each holds code, commands and their output. Nothing is open."
    base = 0.0
    for name, background, model in (
        ("while the call waits", False, True),
        ("in the background", True, True),
        ("by code alone", False, False),
    ):
        scripted = ScriptedModel([Reply(text, delay=SUMMARY)], sleep=time.sleep, repeat=True) if model else None
        memory = agent(scripted, background=background)
        quiet = sorted(1_000 * took for took, compacted in memory.waited if not compacted)
        full = sorted(1_000 * took for took, compacted in memory.waited if compacted)
        middle = statistics.median(full)
        base = base or full[-1]
        print(
            f"{name:28} {statistics.median(quiet):20.1f} {quiet[int(len(quiet) * 0.99)]:6.1f} {len(full):12} "
            f"{middle:8.1f} {full[-1]:8.1f}   {base / full[-1]:.1f} x less than the first"
        )


if __name__ == "__main__":
    main()
