"""The options that name the models to write summaries, for the commands that have them.

The providers' clients are an extra and slow to load. They are imported here, and only if a model was named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.errors import UnusableModel, UsageError
from tenfold.models.choose import AUTO, explain_no_choice, has_provider, qualify_served_model, resolve_models
from tenfold.session.drive import Answerer

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
    """The agent's model ("" if none was named), and the models that write summaries (none: code alone writes).

    `no_model` says why none can be asked although one was to be chosen.
    """

    agent_model: str = ""
    summary_models: tuple[str, ...] = ()
    answerer: Answerer = Answerer()
    no_model: str = ""

    def choose_agent_model(self, recorded_model: str, configured: Sequence[str] = ()) -> str:
        """Returns the model to count for: the agent's if named, else the recorded one, else the one that writes.

        The one that writes is named here or in the settings (`configured`).
        """
        writers = (name for name in (*self.summary_models, *configured) if name != AUTO)
        return self.agent_model or recorded_model or next(writers, "")

    def resolve(self, settings: SummarySettings, agent: str, remedy: str = "") -> SummaryModels:
        """Returns the models to ask: those that were named, else those of the settings.

        "auto" becomes the models chosen for this agent. Those that cannot be asked are left out, and so are all others
        under a policy that keeps its stages. Where none is left, `no_model` says why, and ends with `remedy`, which
        says how to configure one. Raises `UsageError` where "auto" was named on the command line, and for any other
        model that cannot be opened.
        """
        asked = self.summary_models or settings.models
        if asked == self.summary_models and AUTO not in asked:
            return self
        models = resolve_models(asked, agent)
        named = resolve_models([name for name in asked if name != AUTO], agent)
        problems = {name: _find_problem(name, UsageError) for name in models if name not in named}
        problem = next(iter(problems.values()), explain_no_choice(agent) if AUTO in asked else "")
        if settings.is_strict:
            problems |= {name: _find_problem(name, UnusableModel) for name in named}
        models = tuple(name for name in models if not problems.get(name))
        problem = problem or next(filter(None, problems.values()), "")
        if problem and self.summary_models:
            raise UsageError(problem)
        if problem and not models:
            return SummaryModels(self.agent_model, no_model=f"{problem}, or {remedy}" if remedy else problem)
        return SummaryModels(self.agent_model, models, _build_answerer(models))


def _find_problem(model: str, expected: type[UsageError]) -> str:
    """Finds why a model cannot be asked, "" if it can. Raises any `UsageError` that is not of the expected type."""
    try:
        _build_answerer([model])
    except expected as exc:
        return str(exc)
    return ""


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
    from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an optional extra

    return Answerer(model=ProviderModel(*models, base_url=base_url))
