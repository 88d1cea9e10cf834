"""The options that name the models to write summaries, for the commands that have them.

The providers' clients are an extra and slow to load. They are imported here, and only if a model was named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tenfold.engine.drive import Answerer
from tenfold.errors import UsageError
from tenfold.llm.choose import AUTO, choose_models

ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="PROVIDER:NAME writes the summaries, with the key in the provider's environment variable; given again, it "
        "is the fallback; `auto` chooses as `tenfold policies --model` tells. A bare NAME is the agent's model, for "
        "its window and tokenizer.",
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Where --model is served; any OpenAI-compatible server will do.")
]
_WITH_PROVIDER = re.compile(r"[a-z][a-z-]*:.")
"""Matches a model with its provider. Tags as in `qwen2.5:7b` and versions as in `amazon.nova-pro-v1:0` are none."""


class SummaryModels(msgspec.Struct, frozen=True):
    """The agent's model ("" if none was named), and the models that write summaries (none: code alone writes)."""

    agent_model: str = ""
    summary_models: tuple[str, ...] = ()
    answerer: Answerer = Answerer()

    def choose_agent_model(self, recorded_model: str) -> str:
        """Returns the model to count for: the agent's if named, else the recorded one, else the one that writes."""
        return self.agent_model or recorded_model or next((name for name in self.summary_models if name != AUTO), "")

    def resolve_auto(self, agent: str) -> SummaryModels:
        """Resolves `auto` to the models chosen for this agent. Raises `UsageError` if none can be chosen."""
        if self.summary_models != (AUTO,):
            return self
        if not agent:
            raise UsageError("--model auto chooses by the agent's model, and none is recorded: name it, --model NAME")
        models = tuple(choice.model for choice in choose_models(agent) if ":" in choice.model)
        if not models:
            raise UsageError(f"--model auto: no provider is known to offer {agent}; name it as PROVIDER:NAME")
        return SummaryModels(self.agent_model, models, _build_answerer(models, ""))

    def with_summary_models(self, summary_models: tuple[str, ...], agent: str) -> SummaryModels:
        """Returns a copy with other models to write summaries: those of the settings.

        "auto" in the settings is resolved as well.
        """
        if summary_models == (AUTO,):
            return SummaryModels(self.agent_model, summary_models).resolve_auto(agent)
        return SummaryModels(self.agent_model, summary_models, _build_answerer(summary_models, ""))


def parse_models(names: Sequence[str], base_url: str | None) -> SummaryModels:
    """Parses `--model` and `--base-url`. Raises `UsageError` if no client can be opened for a model."""
    if base_url is not None and (not names or AUTO in names):
        raise UsageError("--base-url says where a model is served: name it with --model")
    if AUTO in names:
        others = [name for name in names if name != AUTO]
        if len(others) > 1 or any(_WITH_PROVIDER.match(name) for name in others):
            raise UsageError("--model auto chooses the model that writes; beside it only the agent's can be named")
        return SummaryModels("".join(others), (AUTO,))
    writers = [name if _WITH_PROVIDER.match(name) else f"openai:{name}" for name in names if base_url is not None]
    writers = writers or [name for name in names if _WITH_PROVIDER.match(name)]
    bare = [name for name in names if name not in writers] if base_url is None else []
    if len(bare) > 1:
        raise UsageError(
            f"the agent has one model, and these name none of a provider's: {', '.join(bare)}; a model that writes "
            "summaries is named with its provider, as in openai:gpt-4o-mini"
        )
    agent = bare[0] if bare else ""
    if not writers:
        return SummaryModels(agent)
    return SummaryModels(agent, tuple(writers), _build_answerer(writers, base_url or ""))


def _build_answerer(models: Sequence[str], base_url: str) -> Answerer:
    from tenfold.llm.provider import ProviderModel  # noqa: PLC0415 - an optional extra

    return Answerer(model=ProviderModel(*models, base_url=base_url))
