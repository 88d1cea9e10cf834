"""The options that name the models to write summaries, for the commands that have them.

The providers' clients are an extra and slow to load. They are imported here, and only if a model was named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tenfold.engine.drive import Answerer
from tenfold.errors import UsageError
from tenfold.llm.choose import AUTO, has_provider, qualify_served_model, replace_auto

ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="The model that writes the summaries, as PROVIDER:NAME. Its key is read from the provider's environment "
        "variable. Give the option again to name a fallback. `auto` chooses a cheap model of the same provider; "
        "`tenfold policies --model NAME` shows which. A NAME without a provider is the agent's model: it is not asked, "
        "but sets the window and the tokenizer.",
    ),
]
BaseUrlOption = Annotated[
    str, typer.Option(metavar="URL", help="The address of the OpenAI-compatible server that runs --model.")
]


class SummaryModels(msgspec.Struct, frozen=True):
    """The agent's model ("" if none was named), and the models that write summaries (none: code alone writes)."""

    agent_model: str = ""
    summary_models: tuple[str, ...] = ()
    answerer: Answerer = Answerer()

    def choose_agent_model(self, recorded_model: str, configured: Sequence[str] = ()) -> str:
        """Returns the model to count for: the agent's if named, else the recorded one, else the one that writes.

        The one that writes is named here or in the settings (`configured`).
        """
        writers = (name for name in (*self.summary_models, *configured) if name != AUTO)
        return self.agent_model or recorded_model or next(writers, "")

    def resolve(self, configured: tuple[str, ...], agent: str, remedy: str = "") -> SummaryModels:
        """Returns the models to ask: those that were named, else the configured ones.

        "auto" becomes the models chosen for this agent. Raises `UsageError` if none can be chosen; where "auto" is
        configured, it ends with `remedy`, which says how to configure a model.
        """
        models = self.summary_models or configured
        if AUTO in models:
            models = replace_auto(models, agent)
            if not models:
                known = f"no provider is known to offer {agent}: name one, as PROVIDER:NAME"
                unknown = "that is not recorded in the session: name it, as in --model gpt-5"
                remedy = f", or {remedy}" if remedy and not self.summary_models else ""
                raise UsageError(
                    f"auto chooses the summary model by the agent's; {known if agent else unknown}{remedy}"
                )
        elif models == self.summary_models:
            return self
        return SummaryModels(self.agent_model, models, _build_answerer(models))


def parse_models(names: Sequence[str], base_url: str = "") -> SummaryModels:
    """Parses `--model` and `--base-url`. Raises `UsageError` if no client can be opened for a model."""
    if base_url and (not names or AUTO in names):
        raise UsageError("--base-url is the address of a model: name it with --model")
    if AUTO in names:
        others = [name for name in names if name != AUTO]
        if len(others) > 1 or any(has_provider(name) for name in others):
            raise UsageError("--model auto chooses the model that writes: beside it, name only the agent's model")
        return SummaryModels("".join(others), (AUTO,))
    if base_url:
        writers = [qualify_served_model(name) for name in names]
        return SummaryModels("", tuple(writers), _build_answerer(writers, base_url))
    writers = [name for name in names if has_provider(name)]
    bare = [name for name in names if not has_provider(name)]
    if len(bare) > 1:
        raise UsageError(
            f"the agent has one model, but {len(bare)} are named without a provider: {', '.join(bare)}; name a model "
            "that writes summaries with its provider, as in openai:gpt-4o-mini"
        )
    agent = "".join(bare)
    return SummaryModels(agent, tuple(writers), _build_answerer(writers)) if writers else SummaryModels(agent)


def _build_answerer(models: Sequence[str], base_url: str = "") -> Answerer:
    from tenfold.llm.provider import ProviderModel  # noqa: PLC0415 - an optional extra

    return Answerer(model=ProviderModel(*models, base_url=base_url))
