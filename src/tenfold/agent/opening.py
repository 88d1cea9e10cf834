"""Opens an agent over a store: its session, new or going on, its model, its tools, and its settings read live."""

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
"""The window of the demonstration where none is asked for: small, so that a compaction is seen within minutes."""
_WITH_PROVIDER = re.compile(r"[a-z][a-z-]*:.")


class Key(Struct, frozen=True):
    """A provider's environment variable, and the model that its key opens where none was named."""

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
"""In the order they are looked for. The variables are those that the providers of pydantic-ai 2.68 read. The models are
names of its `KnownModelName`, OpenRouter's and Mistral's of genai-prices 0.2.3: each the provider's newest at a middle
price, $0.15 to $2 per million tokens read (genai-prices 0.2.3). Compared on 2026-11-22."""


class Wanted(Struct, frozen=True):
    """What a user asks for. `model` "": chosen by the keys in the environment; `session` "": a new one.

    `session` is "last" or the beginning of an id. `window` None: the model's; `policy` "": the configured one.
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
    """The agent with the tools of `wanted.root`. `report` is told what goes wrong and is gone on without.

    Raises `UsageError` for a model, key, client, policy or setting that cannot be used, `NotFound` for no such session,
    `BadInput` for a folder or a settings file that cannot be read.
    """
    say = report or (lambda _: None)
    if not wanted.root.is_dir():
        raise BadInput(f"{wanted.root}: there is no such folder; name the one to work in")
    row = row_of(store, wanted.session) if wanted.session else None
    name, model = model_of(wanted, row.info.model if row else "", say)
    window = _window(wanted, name, model)
    if window is None:
        say(f"the window of {name} is not known, and nothing is compacted without it: name it with --window")
    bench = Workbench(wanted.root, approve, most=min(MOST, window or MOST))
    environ = {**os.environ, "TENFOLD_POLICY": wanted.policy} if wanted.policy else os.environ
    policy = _Following(Live(counter_for(name).counter, environ=environ, report=report), name)
    config = read(environ=environ)
    info = row.info if row else SessionInfo(IDS.new())
    if info.model != name and not info.format:  # what was read from a file is described as it was there
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
        capabilities=[Toolset(bench.toolset())],
        extensions=(*config.extensions(), *extensions),
    )


def change(agent: Agent, model: str, *, base_url: str = "", window: int | None = None) -> None:
    """The agent goes on with another model from its next run on, which then writes the summaries too.

    Raises `UsageError` for one that cannot be opened; nothing is changed then.
    """
    session = agent.session
    wanted = Wanted(Path(), model, base_url, window)
    name, opened_model = model_of(wanted)
    named = [one for one in session.policy.summary.models if ":" in one]
    writer = _writer(named, name, base_url)
    agent.use(opened_model, _window(wanted, name, opened_model))
    session.answerer = replace(session.answerer, model=writer)
    place = session.place
    info = row_of(place.store, place.session, namespace=place.namespace).info
    if not info.format:
        place.store.create(place.namespace, replace(info, model=name))


def _window(wanted: Wanted, name: str, model: Model) -> int | None:
    return wanted.window or (WINDOW if name == NAME else model.context_window or window_of(name))


def instructions(root: Path) -> str:
    """What a model is told of its place."""
    return (
        f"You work for the user in the folder {root.resolve().name!r}. Paths of the file tools are relative to it. The "
        "user is asked before a file is changed or a command is run, and may refuse: then ask what to do instead. "
        "Older parts of this conversation may be shown as summaries or stubs; the originals are one recall_search away."
    )


# -- the model ---------------------------------------------------------------------------------------------------------


def model_of(wanted: Wanted, recorded: str = "", report: Callable[[str], None] = lambda _: None) -> tuple[str, Model]:
    """The agent's model and the name it is recorded by: the asked one, the recorded one, the one of a key found.

    Without any of them it is the demonstration. Raises `UsageError` where the one asked for cannot be opened.
    """
    asked = wanted.model
    if wanted.base_url and asked in ("", NAME):
        raise UsageError("--base-url says where a model is served: name it with --model")
    if asked == NAME:
        return NAME, demonstration()
    if asked:
        name = asked if not wanted.base_url or _WITH_PROVIDER.match(asked) else f"openai:{asked}"
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
    """A model string: sessions read from files name the model alone."""
    offer = None if _WITH_PROVIDER.match(model) else offer_of(model)
    return f"{offer.provider}:{model}" if offer is not None else model


# -- who writes the summaries ------------------------------------------------------------------------------------------


class _Following:
    """The policy by the settings as they are now, with "auto" made into models."""

    def __init__(self, live: Live, agent: str) -> None:
        self._live, self._agent = live, agent
        self._made: tuple[Policy, Policy] | None = None

    def __call__(self) -> Policy:
        given = self._live()
        if self._made is None or self._made[0] is not given:
            models = given.summary.models
            if models == (AUTO,):
                found = () if self._agent == NAME else choose(self._agent)
                models = tuple(choice.model for choice in found if ":" in choice.model)
            self._made = given, replace(given, summary=replace(given.summary, models=models))
        return self._made[1]


class _Writer:
    """Writes summaries: the models that the settings name, with their provider; else the agent's own, where it is."""

    def __init__(self, own: str, base_url: str) -> None:
        self._own = ProviderModel(own, base_url=base_url) if own != NAME else None

    def _of(self, ask: Summarize) -> ProviderModel | Answer:
        if ":" in ask.model:
            try:
                return ProviderModel(ask.model)
            except UsageError as exc:  # named by an edit of the settings
                return Answer(error=str(exc))
        return self._own or Answer(error="the demonstration writes no summaries")

    def answer(self, ask: Summarize) -> Answer:
        """The answer to one Ask."""
        model = self._of(ask)
        return model if isinstance(model, Answer) else model.answer(ask)

    async def aanswer(self, ask: Summarize) -> Answer:
        """`answer` as a coroutine."""
        model = self._of(ask)
        return model if isinstance(model, Answer) else await model.aanswer(ask)


def _writer(named: Sequence[str], own: str, base_url: str) -> _Writer | None:
    """Who writes, None where code alone does. Raises `UsageError` for a named model that cannot be opened."""
    for name in named:
        client_for(name)
    return _Writer(own, base_url) if named or own != NAME else None
