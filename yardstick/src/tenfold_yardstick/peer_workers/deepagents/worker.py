"""The worker of deepagents: `SummarizationMiddleware` with a backend in its own folder, through `wrap_model_call`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.messages.utils import convert_to_messages, convert_to_openai_messages
from serving import BEYOND, Chat, Spent, Tried, Turn, fit_setting, render_messages, serve, size
from standin import allotment, summary


def chat(messages: Sequence[BaseMessage]) -> list[Chat]:
    """Converts LangChain's messages to OpenAI Chat messages, with LangChain's own function."""
    return [m for m in convert_to_openai_messages(list(messages)) if isinstance(m, dict)]


def count(messages: Sequence[BaseMessage], **_: object) -> int:
    """Counts as the yardstick does, where LangChain takes a counter."""
    return size(chat(list(messages)))


def summarization(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `keep`, in tokens. Older arguments are shortened first, as in the default of its factory."""

    def write_summary(messages: list[AnyMessage]) -> str:
        texts = render_messages(chat(messages))
        return Spent.add("\n".join(texts), summary(texts, allotment(budget)))

    def run(keep: int) -> list[Chat]:
        with tempfile.TemporaryDirectory() as folder:
            middleware = SummarizationMiddleware(
                FakeListChatModel(responses=[""]),
                backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
                trigger=("tokens", budget),
                keep=("tokens", max(1, keep)),
                token_counter=count,
                trim_tokens_to_summarize=None,
                truncate_args_settings={"trigger": ("tokens", budget), "keep": ("messages", 20)},
                summarizer=write_summary,
            )
            sent: list[AnyMessage] = []

            def model(request: ModelRequest) -> ModelResponse:
                sent.extend(request.messages)
                return ModelResponse(result=[AIMessage("Done.")])

            given = convert_to_messages(past)
            middleware.wrap_model_call(ModelRequest(model=middleware.model, messages=given, state={}), model)
        return chat(sent)

    return fit_setting(run, past, budget, budget)


def turn(past: list[Chat]) -> Turn:
    """Times `wrap_model_call` with nothing to compact and its default counter."""
    middleware = SummarizationMiddleware(
        FakeListChatModel(responses=[""]),
        backend=FilesystemBackend(root_dir=tempfile.mkdtemp(), virtual_mode=True),  # in the worker's home
        trigger=("tokens", BEYOND),
        truncate_args_settings={"trigger": ("tokens", BEYOND), "keep": ("messages", 20)},
    )
    history = convert_to_messages(past)
    sent: list[AnyMessage] = []

    def answer(request: ModelRequest) -> ModelResponse:
        sent[:] = request.messages
        return ModelResponse(result=[AIMessage("Done.")])

    def hook() -> bool:
        middleware.wrap_model_call(ModelRequest(model=middleware.model, messages=history, state={}), answer)
        return len(sent) == len(history)

    return Turn(lambda step: history.extend(convert_to_messages(step)), hook)


if __name__ == "__main__":
    serve({"summarization": summarization}, ["deepagents", "langchain"], {"summarization": turn})
