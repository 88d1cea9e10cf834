"""The worker of agno: `CompressionManager`, which rewrites tool results and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agno.compression import CompressionManager
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from serving import BEYOND, Chat, Spent, Tried, Turn, call_names, fit_setting, get_text, serve
from standin import summary


@dataclass
class StandIn(Model):
    """Shortens one tool result to `allowed` tokens.

    The whole result counts as one message, and its lines as what it says.
    """

    allowed: int = 0

    def response(self, messages: list[Message], **_: Any) -> ModelResponse:
        """Returns the shortened result."""
        prompt = str(messages[-1].content).removeprefix("Tool Results to Compress: ")
        lines = [line for line in prompt.splitlines() if line.strip()]
        return ModelResponse(content=Spent.add(prompt, summary(lines, self.allowed)))

    def invoke(self, *_: Any, **__: Any) -> Any:
        """Never called, since `response` answers."""
        raise NotImplementedError

    ainvoke = invoke_stream = ainvoke_stream = invoke
    _parse_provider_response = _parse_provider_response_delta = invoke


def native(past: list[Chat]) -> list[Message]:
    """Converts OpenAI Chat messages to agno's."""
    names = call_names(past)
    return [
        Message(
            role=m["role"],
            content=get_text(m),
            tool_calls=m.get("tool_calls"),
            tool_call_id=m.get("tool_call_id"),
            tool_name=names.get(m.get("tool_call_id", "")),
        )
        for m in past
    ]


def tool_results(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches the tokens that one shortened result may take. All results are shortened, as agno does."""

    def run(allowed: int) -> list[Chat]:
        given = native(past)
        manager = CompressionManager(
            model=StandIn(id="standin", allowed=max(1, allowed)), compress_tool_results_limit=1
        )
        if manager.should_compress(given):
            manager.compress(given)
        return [
            {**old, "content": new.get_content(use_compressed_content=True)} if new.role == "tool" else old
            for old, new in zip(past, given, strict=True)
        ]

    return fit_setting(
        run, past, budget, budget, first=max(1, budget // max(1, sum(m["role"] == "tool" for m in past)))
    )


def turn(past: list[Chat]) -> Turn:
    """Times `should_compress` with both of its limits out of reach, and with its default counter (characters)."""
    model = StandIn(id="standin")
    manager = CompressionManager(
        model=model, compress_tool_results=True, compress_tool_results_limit=BEYOND, compress_token_limit=BEYOND
    )
    history = native(past)
    return Turn(lambda step: history.extend(native(step)), lambda: not manager.should_compress(history, model=model))


if __name__ == "__main__":
    serve({"tool-results": tool_results}, ["agno"], {"tool-results": turn})
