"""The worker of pydantic-ai-harness: `SummarizingCompaction` and `TieredCompaction` through `compact_now`."""

from __future__ import annotations

import asyncio

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    DeduplicateFileReads,
    SummarizingCompaction,
    TieredCompaction,
    compact_now,
)
from serving import (
    BEYOND,
    Chat,
    Spent,
    Tried,
    Turn,
    Turns,
    call,
    call_names,
    fit_setting,
    get_text,
    run_in_loop,
    serve,
    tokens,
)
from standin import allotment, summary

STEPS = 50
"""How many sizes of the last tier's tail are tried, evenly up to the budget."""


def native(past: list[Chat]) -> list[ModelMessage]:
    """Converts OpenAI Chat messages to pydantic-ai's. The results of parallel calls share one request."""
    names, made = call_names(past), list[ModelMessage]()
    for message in past:
        text = get_text(message)
        if message["role"] == "assistant":
            said = [TextPart(text)] if text else []
            calls = [
                ToolCallPart(c["function"]["name"], c["function"]["arguments"], c["id"])
                for c in message.get("tool_calls") or ()
            ]
            made.append(ModelResponse(parts=[*said, *calls]))
        elif message["role"] == "tool":
            part = ToolReturnPart(names.get(message["tool_call_id"], "tool"), text, message["tool_call_id"])
            last = made[-1] if made else None
            if isinstance(last, ModelRequest) and all(isinstance(p, ToolReturnPart) for p in last.parts):
                made[-1] = ModelRequest(parts=[*last.parts, part])
            else:
                made.append(ModelRequest(parts=[part]))
        else:
            made.append(ModelRequest(parts=[UserPromptPart(text)]))
    return made


def chat(messages: list[ModelMessage]) -> list[Chat]:
    """Converts pydantic-ai's messages back.

    A part that replaces earlier messages (a summary, a receipt) is a user message.
    """
    made: list[Chat] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            text = "\n".join(p.content for p in message.parts if isinstance(p, TextPart))
            calls = [
                call(p.tool_call_id, p.tool_name, p.args_as_json_str())
                for p in message.parts
                if isinstance(p, ToolCallPart)
            ]
            made.append({"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})})
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                made.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()})
            elif isinstance(part, SystemPromptPart):
                made.append({"role": "system", "content": part.content})
            else:
                made.append({"role": "user", "content": str(getattr(part, "content", ""))})
    return made


def standin(budget: int) -> FunctionModel:
    """Returns the stand-in as a model. The last user prompt is the rendered conversation."""

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        asked = [p for p in messages[-1].parts if isinstance(p, UserPromptPart)][-1]
        prompt = str(asked.content)
        return ModelResponse(parts=[TextPart(Spent.add(prompt, summary(prompt, allotment(budget))))])

    return FunctionModel(answer)


def summarizing(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `keep_tokens`. The prompt is the conversation alone, since the stand-in follows no instructions."""

    def run(keep: int) -> list[Chat]:
        strategy = SummarizingCompaction(
            max_tokens=budget, keep_tokens=max(1, keep), tokenizer=tokens, summary_prompt="{messages}"
        )
        return chat(asyncio.run(compact_now(strategy, native(past), model=standin(budget), tokenizer=tokens)))

    return fit_setting(run, past, budget, budget)


def tiered(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Clears tool results, drops repeated reads, then summarizes, in the order of its documentation.

    Searches `keep_pairs` of the first tier, and if even 0 is too much, `keep_tokens` of the last.
    """

    def run(setting: int) -> list[Chat]:
        keep, pairs = budget * min(setting, STEPS) // STEPS, max(0, setting - STEPS - 1)
        target = budget if setting > STEPS else 1
        tiers = [
            ClearToolResults(max_tokens=1, keep_pairs=pairs, tokenizer=tokens),
            DeduplicateFileReads(file_key=file_key),
            SummarizingCompaction(
                max_tokens=1, keep_tokens=max(1, keep), tokenizer=tokens, summary_prompt="{messages}"
            ),
        ]
        strategy = TieredCompaction(tiers=tiers, target_tokens=target, tokenizer=tokens)
        return chat(asyncio.run(compact_now(strategy, native(past), model=standin(budget), tokenizer=tokens)))

    return fit_setting(run, past, budget, STEPS + 1 + sum(m["role"] == "tool" for m in past))


def file_key(made: ToolCallPart) -> str | None:
    """Returns the file that a call reads, for tools that name it `path`, `file_path` or `filename`."""
    if not made.tool_name.lower().startswith(("read", "view", "open")):
        return None
    arguments = made.args_as_dict()
    return next((str(arguments[k]) for k in ("path", "file_path", "filename") if k in arguments), None)


def turns(capability: AbstractCapability) -> Turns:
    """Times `before_model_request` of the capability with nothing to compact and its default counter."""

    def turn(past: list[Chat]) -> Turn:
        model, history = standin(1), native(past)
        context = RunContext(deps=None, model=model, usage=RunUsage(), messages=history)
        request = ModelRequestContext(
            model=model, messages=history, model_settings=None, model_request_parameters=ModelRequestParameters()
        )
        return Turn(
            lambda step: history.extend(native(step)),
            lambda: run_in_loop(capability.before_model_request(context, request)) is request,
        )

    return turn


if __name__ == "__main__":
    serve(
        {"summarizing": summarizing, "tiered": tiered},
        ["pydantic-ai-harness", "pydantic-ai-slim"],
        {
            "summarizing": turns(SummarizingCompaction(max_tokens=BEYOND)),
            "tiered": turns(
                TieredCompaction(
                    tiers=[ClearToolResults(max_tokens=BEYOND), SummarizingCompaction(max_tokens=BEYOND)],
                    target_tokens=BEYOND,
                )
            ),
        },
    )
