"""The worker of llama-index-core: `ChatSummaryMemoryBuffer` summarizes what no longer fits, `Memory` drops it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms import CompletionResponse, CustomLLM
from llama_index.core.memory import ChatSummaryMemoryBuffer, Memory
from serving import BEYOND, Chat, Spent, Tried, Turn, fit_setting, get_text, run_in_loop, serve, tokens
from standin import allotment, summary


class StandIn(CustomLLM):
    """Answers with a summary of the transcript in the last message."""

    budget: int

    @property
    def metadata(self) -> LLMMetadata:
        """A window that never limits."""
        return LLMMetadata(context_window=10_000_000)

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        """Returns the summary."""
        prompt = str(messages[-1].content)
        text = Spent.add(prompt, summary(prompt, allotment(self.budget)))
        return ChatResponse(message=ChatMessage(role="assistant", content=text))

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        """Returns the summary of a plain prompt."""
        return CompletionResponse(text=Spent.add(prompt, summary(prompt, allotment(self.budget))))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        """Never called."""
        raise NotImplementedError


def native(past: Sequence[Chat]) -> list[ChatMessage]:
    """Converts OpenAI Chat messages to llama-index's.

    Calls and ids go into `additional_kwargs`, as its client has it.
    """
    return [
        ChatMessage(
            role=m["role"],
            content=get_text(m) or None,
            additional_kwargs={k: m[k] for k in ("tool_calls", "tool_call_id", "name") if m.get(k)},
        )
        for m in past
    ]


def chat(messages: Sequence[ChatMessage]) -> list[Chat]:
    """Converts llama-index's messages back."""
    return [{"role": m.role.value, "content": m.content, **m.additional_kwargs} for m in messages]


def count_as_list(text: str) -> list[int]:
    """Returns a list with one item per token, by the yardstick's counter, because llama-index asks for a list."""
    return [0] * tokens(text)


def chat_summary(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `token_limit`, the tokens that stay beside the summary.

    The summary is a system message at the front. It is passed on as a user message, so that the next round summarizes
    it again and does not take it for a system prompt.
    """

    def run(limit: int) -> list[Chat]:
        memory = ChatSummaryMemoryBuffer.from_defaults(
            chat_history=native(past), llm=StandIn(budget=budget), token_limit=max(1, limit), tokenizer_fn=count_as_list
        )
        return [{**m, "role": "user"} if m["role"] == "system" else m for m in chat(memory.get())]

    return fit_setting(run, past, budget, 2 * budget, first=budget)


def memory(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `token_limit`, without memory blocks, so that only its history is measured."""

    def run(limit: int) -> list[Chat]:
        kept = Memory.from_defaults(
            session_id=uuid.uuid4().hex,
            token_limit=max(2, limit),
            chat_history_token_ratio=1.0,
            token_flush_size=max(1, limit // 50),
            tokenizer_fn=count_as_list,
        )
        kept.put_messages(native(past))
        return chat(kept.get())

    return fit_setting(run, past, budget, 2 * budget, first=budget)


def chat_summary_turn(past: list[Chat]) -> Turn:
    """Times `put` of what is new, then `get`, with its default tokenizer."""
    buffer = ChatSummaryMemoryBuffer.from_defaults(chat_history=native(past), llm=StandIn(budget=1), token_limit=BEYOND)
    new, all_ = list[ChatMessage](), native(past)

    def grows(step: list[Chat]) -> None:
        new[:] = native(step)
        all_.extend(new)

    def hook() -> bool:
        for message in new:
            buffer.put(message)
        return len(buffer.get()) == len(all_)

    return Turn(grows, hook)


def memory_turn(past: list[Chat]) -> Turn:
    """Times `aput_messages` of what is new, then `aget`, as its agents do, with its default tokenizer."""
    kept = Memory.from_defaults(session_id=uuid.uuid4().hex, token_limit=BEYOND, chat_history_token_ratio=1.0)
    new, all_ = list[ChatMessage](), native(past)
    run_in_loop(kept.aput_messages(native(past)))

    def grows(step: list[Chat]) -> None:
        new[:] = native(step)
        all_.extend(new)

    async def both() -> bool:
        await kept.aput_messages(new)
        return len(await kept.aget()) == len(all_)

    return Turn(grows, lambda: run_in_loop(both()))


if __name__ == "__main__":
    serve(
        {"chat-summary": chat_summary, "memory": memory},
        ["llama-index-core"],
        {"chat-summary": chat_summary_turn, "memory": memory_turn},
    )
