"""The worker of openai-agents: `ToolOutputTrimmer`, and a session's `limit` of items.

Its compaction session runs on OpenAI's server, so it cannot be measured.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, SessionSettings, SQLiteSession
from agents.extensions.tool_output_trimmer import ToolOutputTrimmer
from agents.run_config import CallModelData, ModelInputData
from serving import BEYOND, Chat, Tried, Turn, Unable, call, fit_setting, get_text, run_in_loop, serve

SERVER = "OpenAIResponsesCompactionSession compacts on OpenAI's server: it needs a key and the network"

Item = dict[str, Any]
"""An input item of the Responses API."""


def items(past: list[Chat]) -> list[Item]:
    """Converts OpenAI Chat messages to Responses items. Each call becomes an item of its own."""
    made: list[Item] = []
    for message in past:
        if message["role"] == "tool":
            made.append(
                {"type": "function_call_output", "call_id": message["tool_call_id"], "output": get_text(message)}
            )
            continue
        if get_text(message) or not message.get("tool_calls"):
            made.append({"role": message["role"], "content": get_text(message)})
        for each in message.get("tool_calls") or ():
            inner = each["function"]
            made.append(
                {"type": "function_call", "call_id": each["id"], "name": inner["name"], "arguments": inner["arguments"]}
            )
    return made


def chat(found: list[Item]) -> list[Chat]:
    """Converts Responses items back. Calls join the message before them."""
    made: list[Chat] = []
    for item in found:
        if item.get("type") == "function_call_output":
            made.append({"role": "tool", "tool_call_id": item["call_id"], "content": str(item["output"])})
        elif item.get("type") == "function_call":
            if not made or made[-1]["role"] != "assistant":
                made.append({"role": "assistant", "content": None})
            made[-1].setdefault("tool_calls", []).append(call(item["call_id"], item["name"], item["arguments"]))
        else:
            made.append({"role": item["role"], "content": item["content"]})
    return made


def tool_output_trimmer(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `recent_turns`, the user messages from which on nothing is trimmed, then `preview_chars`."""
    turns, given = sum(m["role"] == "user" for m in past), items(past)

    def run(setting: int) -> list[Chat]:
        preview, recent = (setting, 1) if setting <= 200 else (200, setting - 200)
        trimmer = ToolOutputTrimmer(recent_turns=recent, preview_chars=preview, max_output_chars=max(1, 2 * preview))
        data = CallModelData(
            model_data=ModelInputData(input=given, instructions=None), agent=Agent(name="a"), context=None
        )
        return chat(list(trimmer(data).input))

    return fit_setting(run, past, budget, 200 + turns)


def session_limit(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `SessionSettings(limit=...)`, the number of newest items that a session returns."""
    given = items(past)

    async def store_items(limit: int) -> list[Item]:
        session = SQLiteSession("s", ":memory:", session_settings=SessionSettings(limit=max(1, limit)))
        await session.add_items(given)
        try:
            return list(await session.get_items())
        finally:
            session.close()

    return fit_setting(lambda limit: chat(asyncio.run(store_items(limit))), past, budget, len(given))


def responses_compaction(_past: list[Chat], _budget: int, _window: int | None) -> list[Chat]:
    """Raises `UnableError`: `OpenAIResponsesCompactionSession` needs the network."""
    raise Unable(SERVER)


def trimmer_turn(past: list[Chat]) -> Turn:
    """Times the filter before a model call, if no output is long enough to be trimmed."""
    trimmer, history = ToolOutputTrimmer(max_output_chars=BEYOND), items(past)
    model_data = ModelInputData(input=history, instructions=None)
    data = CallModelData(model_data=model_data, agent=Agent(name="a"), context=None)
    return Turn(lambda step: history.extend(items(step)), lambda: len(trimmer(data).input) == len(history))


def responses_compaction_turn(_past: list[Chat]) -> Turn:
    """Raises `UnableError`, as `responses_compaction` does."""
    raise Unable(SERVER)


def session_turn(past: list[Chat]) -> Turn:
    """Times `add_items` of what is new, then `get_items`, which its runner does once per run."""
    session = SQLiteSession("s", ":memory:", session_settings=SessionSettings(limit=BEYOND))
    run_in_loop(session.add_items(items(past)))
    new, all_ = list[Item](), items(past)

    def grows(step: list[Chat]) -> None:
        new[:] = items(step)
        all_.extend(new)

    async def both() -> bool:
        await session.add_items(new)
        return len(await session.get_items()) == len(all_)

    return Turn(grows, lambda: run_in_loop(both()))


if __name__ == "__main__":
    serve(
        {
            "tool-output-trimmer": tool_output_trimmer,
            "session-limit": session_limit,
            "responses-compaction": responses_compaction,
        },
        ["openai-agents"],
        {
            "tool-output-trimmer": trimmer_turn,
            "session-limit": session_turn,
            "responses-compaction": responses_compaction_turn,
        },
    )
