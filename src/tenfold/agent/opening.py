"""Opens an agent over a store: its new or continued session, its model, its tools, and its settings, read live."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from pydantic_ai.capabilities import Toolset
from pydantic_ai.models import Model

from tenfold.agent.agent import Agent
from tenfold.agent.demonstration import NAME, demonstration
from tenfold.agent.workbench import MOST, Approve, Workbench
from tenfold.drive import Answerer
from tenfold.errors import BadInput, UsageError
from tenfold.extensions import Extension
from tenfold.llm.choose import AUTO, choose, offer_of
from tenfold.llm.provider import ProviderModel, client_for
from tenfold.log.base import SessionInfo, Store
from tenfold.log.finding import row_of
from tenfold.log.ids import IDS
from tenfold.meter.counters import counter_for
from tenfold.meter.windows import window_of
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Summarize
from tenfold.session import Place, Session
from tenfold.settings import Live, read

WINDOW = 16_000
"""The demonstration's default window in tokens: small, so that a compaction can be seen within minutes."""
_WITH_PROVIDER = re.compile(r"[a-z][a-z-]*:.")


class Key(Struct, frozen=True):
    """A provider's environment variable, and the model to use if that key is set and no model was named."""

    variable: str
    model: str


KEYS: tuple[Key, ...] = (
    Key("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"),
    Key("OPENAI_API_KEY", "openai:gpt-6.1-terra"),
    Key("GOOGLE_API_KEY", "google:gemini-3.8-flash"),
    Key("GEMINI_API_KEY", "google:gemini-3.8-flash"),
    Key("OPENROUTER_API_KEY", "openrouter:anthropic/claude-sonnet-5.5"),
    Key("MISTRAL_API_KEY", "mistral:mistral-large-2512"),
    Key("GROQ_API_KEY", "groq:openai/gpt-oss-120b"),
)
"""Tried in this order. The variables are those that the providers of pydantic-ai 2.68 read. The models are names of its
`KnownModelName`; OpenRouter's and Mistral's are names of genai-prices 0.2.3. Each is the provider's newest model at a
middle price, $0.15 to $2 per million tokens read (genai-prices 0.2.3). Compared on 2026-11-22."""


class Wanted(Struct, frozen=True):
    """What a user asks for when an agent is opened.

    With `model` "" the keys in the environment choose it. `session` is "last" or the beginning of an id; "" makes a new
    one. With `window` None it is the model's own, and with `policy` "" the configured one.
    """

    root: Path
    model: str = ""
    base_url: str = ""
    window: int | None = None
    policy: str = ""
    session: str = ""


def opened(
    store: Store,
    wanted: Wanted,
    approve: Approve,
    *,
    extensions: Sequence[Extension] = (),
    report: Callable[[str], None] | None = None,
) -> Agent:
    """Opens the agent, with the tools of the folder `options.root`. `report` receives problems that do not stop it.

    Raises `UsageError` for a model, key, client, policy or setting that cannot be used, `NotFound` if there is no such
    session, and `BadInput` for a folder or a settings file that cannot be read.
    """
    report_problem = report or (lambda _: None)
    if not wanted.root.is_dir():
        raise BadInput(f"{wanted.root}: there is no such folder; name the one to work in")
    row = row_of(store, wanted.session) if wanted.session else None
    name, model = model_of(wanted, row.info.model if row else "", report_problem)
    window = _window(wanted, name, model)
    if window is None:
        report_problem(f"the window of {name} is not known, and nothing is compacted without it: name it with --window")
    coding_tools = Workbench(wanted.root, approve, most=min(MOST, window or MOST))
    environ = {**os.environ, "TENFOLD_POLICY": wanted.policy} if wanted.policy else os.environ
    policy = _Following(Live(counter_for(name).counter, environ=environ, report=report), name)
    config = read(environ=environ)
    info = row.info if row else SessionInfo(IDS.new())
    if info.model != name and not info.format:  # a session read from a file keeps its description
        info = replace(info, model=name)
    session = Session.create(
        Place(store, info.id),
        policy,
        model=model.model_name,
        answerer=Answerer(model=_writer(policy().summary.models, name, wanted.base_url), report=report),
        info=info,
        archive=config.archive(),
    )
    return Agent(
        model,
        session=session,
        window=window,
        instructions=instructions(wanted.root),
        capabilities=[Toolset(coding_tools.toolset())],
        extensions=(*config.extensions(), *extensions),
    )


def change(agent: Agent, model: str, *, base_url: str = "", window: int | None = None) -> None:
    """Switches the agent to another model from its next run on. That model then writes the summaries too.

    Raises `UsageError` if it cannot be opened; nothing is changed then.
    """
    session = agent.session
    options = Wanted(Path(), model, base_url, window)
    name, new_model = model_of(options)
    summary_models = [one for one in session.policy.summary.models if ":" in one]
    writer = _writer(summary_models, name, base_url)
    agent.use(new_model, _window(options, name, new_model))
    session.answerer = replace(session.answerer, model=writer)
    place = session.place
    info = row_of(place.store, place.session, namespace=place.namespace).info
    if not info.format:
        place.store.create(place.namespace, replace(info, model=name))


def _window(wanted: Wanted, name: str, model: Model) -> int | None:
    return wanted.window or (WINDOW if name == NAME else model.context_window or window_of(name))


def instructions(root: Path) -> str:
    """Builds the instructions that tell the model about its working folder."""
    return (
        f"You work for the user in the folder {root.resolve().name!r}. Paths of the file tools are relative to it. The "
        "user is asked before a file is changed or a command is run, and may refuse: then ask what to do instead. "
        "Older parts of this conversation may be shown as summaries or stubs; the originals are one recall_search away."
    )


# -- the model ---------------------------------------------------------------------------------------------------------


def model_of(wanted: Wanted, recorded: str = "", report: Callable[[str], None] = lambda _: None) -> tuple[str, Model]:
    """Chooses the agent's model. Returns the name that is recorded, and the model.

    The model that was asked for comes first, then the one recorded in the session, then the first one whose key is set,
    then the demonstration. Raises `UsageError` if the model that was asked for cannot be opened.
    """
    requested = wanted.model
    if wanted.base_url and requested in ("", NAME):
        raise UsageError("--base-url says where a model is served: name it with --model")
    if requested == NAME:
        return NAME, demonstration()
    if requested:
        name = requested if not wanted.base_url or _WITH_PROVIDER.match(requested) else f"openai:{requested}"
        return name, client_for(name, wanted.base_url)
    if recorded and recorded != NAME:
        try:
            name = _with_provider(recorded)
            return name, client_for(name)
        except UsageError as exc:
            report(f"the session's model cannot go on: {exc}")
    return _found(os.environ, report)


def _found(environ: Mapping[str, str], report: Callable[[str], None]) -> tuple[str, Model]:
    for row in KEYS:
        if environ.get(row.variable):
            try:
                return row.model, client_for(row.model)
            except UsageError as exc:  # its client is not installed
                report(str(exc))
    return NAME, demonstration()


def _with_provider(model: str) -> str:
    """Returns the model's name with its provider. Sessions read from files name the model alone."""
    offer = None if _WITH_PROVIDER.match(model) else offer_of(model)
    return f"{offer.provider}:{model}" if offer is not None else model


# -- what writes the summaries -----------------------------------------------------------------------------------------


class _Following:
    """The policy of the current settings, read live. It resolves "auto" to models."""

    def __init__(self, live: Live, agent: str) -> None:
        self._live, self._agent = live, agent
        self._made: tuple[Policy, Policy] | None = None

    def __call__(self) -> Policy:
        policy = self._live()
        if self._made is None or self._made[0] is not policy:
            models = policy.summary.models
            if models == (AUTO,):
                choices = () if self._agent == NAME else choose(self._agent)
                models = tuple(choice.model for choice in choices if ":" in choice.model)
            self._made = policy, replace(policy, summary=replace(policy.summary, models=models))
        return self._made[1]


class _Writer:
    """Writes summaries with the models that the settings name with a provider, else with the agent's own model."""

    def __init__(self, own: str, base_url: str) -> None:
        self._own = ProviderModel(own, base_url=base_url) if own != NAME else None

    def _of(self, ask: Summarize) -> ProviderModel | Answer:
        if ":" in ask.model:
            try:
                return ProviderModel(ask.model)
            except UsageError as exc:  # the settings were edited since
                return Answer(error=str(exc))
        return self._own or Answer(error="the demonstration writes no summaries")

    def answer(self, ask: Summarize) -> Answer:
        """Answers one Ask."""
        model = self._of(ask)
        return model if isinstance(model, Answer) else model.answer(ask)

    async def aanswer(self, ask: Summarize) -> Answer:
        """Answers one Ask as a coroutine."""
        model = self._of(ask)
        return model if isinstance(model, Answer) else await model.aanswer(ask)


def _writer(named: Sequence[str], own: str, base_url: str) -> _Writer | None:
    """Opens what writes the summaries. Returns None if code alone writes them.

    Raises `UsageError` for a named model that cannot be opened.
    """
    for name in named:
        client_for(name)
    return _Writer(own, base_url) if named or own != NAME else None
