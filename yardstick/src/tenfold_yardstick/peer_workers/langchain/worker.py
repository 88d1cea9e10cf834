"""The worker of LangChain: `SummarizationMiddleware`, `ClearToolUsesEdit` and `trim_messages`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, trim_messages
from langchain_core.messages.utils import convert_to_messages, convert_to_openai_messages, count_tokens_approximately
from serving import BEYOND, Chat, Spent, Tried, Turn, fit_setting, render_messages, serve, size
from standin import allotment, summary


def chat(messages: Sequence[BaseMessage]) -> list[Chat]:
    """Converts LangChain's messages to OpenAI Chat messages, with LangChain's own function."""
    return [m for m in convert_to_openai_messages(list(messages)) if isinstance(m, dict)]


def count(messages: Sequence[BaseMessage]) -> int:
    """Counts as the yardstick does, where LangChain takes a counter."""
    return size(chat(list(messages)))


def summarization(past: list[Chat], budget: int, window: int | None) -> Tried:
    """Searches `keep`, in tokens. The whole older part is summarized (`trim_tokens_to_summarize=None`)."""

    def write_summary(messages: list[AnyMessage]) -> str:
        texts = render_messages(chat(messages))
        return Spent.add("\n".join(texts), summary(texts, allotment(budget)))

    def run(keep: int) -> list[Chat]:
        middleware = SummarizationMiddleware(
            FakeListChatModel(responses=[""]),
            trigger=("tokens", budget),
            keep=("tokens", max(1, keep)),
            token_counter=count,
            trim_tokens_to_summarize=None,
            summarizer=write_summary,
        )
        given = convert_to_messages(past)
        update = middleware.before_model({"messages": given}, None)
        made = given if update is None else [m for m in update["messages"] if not isinstance(m, RemoveMessage)]
        return chat(made)

    return fit_setting(run, past, budget, budget)


def clear_tool_uses(past: list[Chat], budget: int, window: int | None) -> Tried:
    """Searches `keep`, the number of newest tool results that stay. Inputs are removed too if no result may stay."""

    def run(setting: int) -> list[Chat]:
        given = convert_to_messages(past)
        edit = ClearToolUsesEdit(trigger=budget, keep=max(0, setting - 1), clear_tool_inputs=setting == 0)
        edit.apply(given, count_tokens=count)
        return chat(given)

    return fit_setting(run, past, budget, 1 + sum(m["role"] == "tool" for m in past))


def trim(past: list[Chat], budget: int, window: int | None) -> list[Chat]:
    """Keeps the newest messages that fit, beginning with a message of the user or the model."""
    return chat(
        trim_messages(
            convert_to_messages(past),
            max_tokens=budget,
            token_counter=count,
            strategy="last",
            start_on=("human", "ai"),
            end_on=("human", "tool", "ai"),
        )
    )


# -- a turn with nothing to compact, each with LangChain's own default counter -----------------------------------------


def build_growth(history: list[AnyMessage]) -> Callable[[list[Chat]], object]:
    """Returns a function that adds new messages to a history."""
    return lambda step: history.extend(convert_to_messages(step))


def summarization_turn(past: list[Chat]) -> Turn:
    """Times `before_model` of the middleware."""
    middleware = SummarizationMiddleware(FakeListChatModel(responses=[""]), trigger=("tokens", BEYOND))
    history = convert_to_messages(past)
    return Turn(build_growth(history), lambda: middleware.before_model({"messages": history}, None) is None)


def clear_tool_uses_turn(past: list[Chat]) -> Turn:
    """Times `wrap_model_call` of the middleware that applies the edit. It copies the whole history first."""
    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=BEYOND)])
    history, model = convert_to_messages(past), FakeListChatModel(responses=[""])
    sent: list[AnyMessage] = []

    def answer(request: ModelRequest) -> ModelResponse:
        sent[:] = request.messages
        return ModelResponse(result=[AIMessage("Done.")])

    def hook() -> bool:
        middleware.wrap_model_call(ModelRequest(model=model, messages=history), answer)
        return len(sent) == len(history)

    return Turn(build_growth(history), hook)


def trim_turn(past: list[Chat]) -> Turn:
    """Times `trim_messages`, as a host calls it on its history."""
    history = convert_to_messages(past)

    def hook() -> bool:
        made = trim_messages(history, max_tokens=BEYOND, token_counter=count_tokens_approximately, strategy="last")
        return len(made) == len(history)

    return Turn(build_growth(history), hook)


if __name__ == "__main__":
    serve(
        {"summarization": summarization, "clear-tool-uses": clear_tool_uses, "trim": trim},
        ["langchain"],
        {"summarization": summarization_turn, "clear-tool-uses": clear_tool_uses_turn, "trim": trim_turn},
    )
