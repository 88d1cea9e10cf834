"""Opens an agent over a store: its new or continued session, its model, its tools, and its settings, read live."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from pydantic_ai.capabilities import Toolset
from pydantic_ai.models import Model

from tenfold.apps.agent.coding_tools import MAX_RESULT_SIZE, Approver, CodingTools
from tenfold.apps.agent.demonstration import DEMONSTRATION, build_demonstration
from tenfold.apps.agent.runtime import Agent
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.config.extensions import Extension
from tenfold.config.settings import LivePolicy, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.errors import BadInput, UnusableModel, UsageError
from tenfold.models.choose import qualify_recorded_model, qualify_served_model, resolve_models
from tenfold.models.provider import ProviderModel, open_client, resolve_window
from tenfold.session import Session, SessionAddress
from tenfold.session.compactor import SESSION_MODEL
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.ids import IDS
from tenfold.store.lookup import find_session


class ProviderKey(Struct, frozen=True):
    """A provider's environment variable, and the model to use if that key is set and no model was named."""

    variable: str
    model: str


PROVIDER_KEYS: tuple[ProviderKey, ...] = (
    ProviderKey("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"),
    ProviderKey("OPENAI_API_KEY", "openai:gpt-6.1-terra"),
    ProviderKey("GOOGLE_API_KEY", "google:gemini-3.8-flash"),
    ProviderKey("GEMINI_API_KEY", "google:gemini-3.8-flash"),
    ProviderKey("OPENROUTER_API_KEY", "openrouter:anthropic/claude-sonnet-5.5"),
    ProviderKey("MISTRAL_API_KEY", "mistral:mistral-large-2512"),
    ProviderKey("GROQ_API_KEY", "groq:openai/gpt-oss-120b"),
)
"""Tried in this order. The variables are those that the providers of pydantic-ai 2.68 read. The models are names of its
`KnownModelName`; OpenRouter's and Mistral's are names of genai-prices 0.2.3. Each is the provider's newest model at a
middle price, $0.15 to $2 per million tokens read (genai-prices 0.2.3). Compared on 2026-11-22."""


class AgentOptions(Struct, frozen=True):
    """What a user asks for when an agent is opened.

    With `model` "" the keys in the environment choose it. `session` is "last" or the beginning of an id; "" makes a new
    one. With `window` None it is the model's own, and with `policy` "" the configured one. `sizes` are settings that
    come before the configured ones: `compact_at`, `down_to`, `thrift`.
    """

    root: Path
    model: str = ""
    base_url: str = ""
    window: int | None = None
    policy: str = ""
    session: str = ""
    namespace: str = DEFAULT_NAMESPACE
    sizes: Mapping[str, str | float] = {}


def open_agent(
    store: Store,
    options: AgentOptions,
    approve: Approver,
    *,
    extensions: Sequence[Extension] = (),
    report: Callable[[str], None] | None = None,
) -> Agent:
    """Opens the agent, with the tools of the folder `options.root`. `report` receives problems that do not stop it.

    Raises `UsageError` for a model, key, client, policy or setting that cannot be used, `NotFoundError` if there is
    no such session, and `BadInput` for a folder or a settings file that cannot be read.
    """
    report_problem = report or (lambda _: None)
    if not options.root.is_dir():
        raise BadInput(f"{options.root}: there is no such folder; name the one to work in")
    row = find_session(store, options.session, namespace=options.namespace) if options.session else None
    is_real = row is not None and row.entry_count > 0 and row.info.model != DEMONSTRATION
    name, model = choose_model(options, row.info.model if row else "", report_problem, is_real=is_real)
    environ = {**os.environ, "TENFOLD_POLICY": options.policy} if options.policy else os.environ
    policy = _LivePolicy(
        LivePolicy(choose_counter(name).counter, environ=environ, flags=options.sizes, report=report),
        name,
        options.base_url,
    )
    window = options.window or policy().choose_window(resolve_window(model))
    if window is None:
        report_problem(
            f"the context window of {name} is unknown, so nothing is compacted: set it, as in --window 200000"
        )
    coding_tools = CodingTools(options.root, approve, max_size=min(MAX_RESULT_SIZE, window or MAX_RESULT_SIZE))
    config = load_settings(environ=environ)
    info = row.info if row else SessionInfo(IDS.generate(), window=options.window or 0, client="tenfold")
    if info.model != name and not info.format:  # a session read from a file keeps its description
        info = replace(info, model=name)
    session = Session.create(
        SessionAddress(store, info.id, options.namespace),
        policy,
        model=model.model_name,
        answerer=Answerer(
            model=_open_summary_writer(policy().summary, name, options.base_url), problem_reporter=report
        ),
        info=info,
        archive=config.load_archive(),
    )
    if window is None:
        session.compactor.skip_window_report()
    return Agent(
        model,
        session=session,
        window=window,
        instructions=build_instructions(options.root),
        capabilities=[Toolset(coding_tools.build_toolset())],
        extensions=(*config.load_extensions(), *extensions),
    )


def change_model(agent: Agent, model: str, *, base_url: str = "", window: int | None = None) -> None:
    """Switches the agent to another model from its next run on. That model then writes the summaries too.

    Raises `UsageError` if it cannot be opened; nothing is changed then.
    """
    session = agent.session
    is_real = agent.model.model_name != DEMONSTRATION and session.view.path.length > 0
    name, new_model = choose_model(AgentOptions(Path(), model, base_url), is_real=is_real)
    provider = session.compactor.policy_provider
    policy = _LivePolicy(provider.live, name, base_url) if isinstance(provider, _LivePolicy) else provider
    summary = policy().summary
    callable_models = tuple(one for one in summary.models if ":" in one)
    writer = _open_summary_writer(replace(summary, models=callable_models), name, base_url)
    agent.use(new_model, window)
    session.compactor.use_policy(policy)
    if agent.window is None:  # whoever switches says so
        session.compactor.use_model(new_model.model_name)
        session.compactor.skip_window_report()
    session.compactor.use_answerer(replace(session.compactor.answerer, model=writer))
    place = session.address
    info = find_session(place.store, place.session, namespace=place.namespace).info
    if not info.format:
        place.store.create(place.namespace, replace(info, model=name))


def build_instructions(root: Path) -> str:
    """Builds the instructions that tell the model about its working folder."""
    return (
        f"You work for the user in the folder {root.resolve().name!r}. Paths of the file tools are relative to it. The "
        "user is asked before a file is changed or a command is run, and may refuse: then ask what to do instead. "
        "Older parts of this conversation may be shown as summaries or stubs; the originals are one recall_search away."
    )


# -- the model ---------------------------------------------------------------------------------------------------------


def choose_model(
    options: AgentOptions,
    recorded_model: str = "",
    report: Callable[[str], None] = lambda _: None,
    *,
    is_real: bool = False,
) -> tuple[str, Model]:
    """Chooses the agent's model. Returns the name that is recorded, and the model.

    The model that was asked for comes first, then the one recorded in the session, then the first one whose key is set,
    then the demonstration. With `is_real` the session has messages of a real model: a script never goes on with it.
    Raises `UsageError` if the model that was asked for cannot be opened, or if only the demonstration is left for such
    a session.
    """
    requested = options.model
    if options.base_url and requested in ("", DEMONSTRATION):
        raise UsageError("--base-url is the address of a model: name it with --model")
    if requested == DEMONSTRATION:
        return _choose_demonstration(is_real=is_real)
    if requested:
        name = qualify_served_model(requested) if options.base_url else requested
        return name, open_client(name, options.base_url)
    if recorded_model and recorded_model != DEMONSTRATION:
        try:
            name = qualify_recorded_model(recorded_model)
            return name, open_client(name)
        except UsageError as exc:
            report(f"the session's model cannot be used: {exc}")
    return _find_keyed_model(os.environ, report) or _choose_demonstration(is_real=is_real, recorded=recorded_model)


def _find_keyed_model(environ: Mapping[str, str], report: Callable[[str], None]) -> tuple[str, Model] | None:
    for row in PROVIDER_KEYS:
        if environ.get(row.variable):
            try:
                return row.model, open_client(row.model)
            except UsageError as exc:  # its client is not installed
                report(str(exc))
    return None


def _choose_demonstration(*, is_real: bool, recorded: str = "") -> tuple[str, Model]:
    if is_real:
        model = recorded or "PROVIDER:NAME"
        raise UsageError(
            "the demonstration is a script and does not go on with a session of a real model"
            f"{f', which ran with {recorded}' if recorded else ''}: name one with --model {model} (and --base-url URL, "
            f"if a server of your own runs it), or set a provider's key, such as {PROVIDER_KEYS[0].variable}"
        )
    return DEMONSTRATION, build_demonstration()


# -- what writes the summaries -----------------------------------------------------------------------------------------


class _LivePolicy:
    """The policy of the current settings, read live. It resolves "auto", and names without a provider, to models.

    Behind a base URL that is the agent's own model: what else the server has is not known, and the conversation may not
    go to another one.
    """

    def __init__(self, live: LivePolicy, agent_model: str, base_url: str) -> None:
        self.live, self._is_demonstration = live, agent_model == DEMONSTRATION
        self._agent_model = "" if base_url or self._is_demonstration else agent_model
        self._cache: tuple[Policy, Policy] | None = None

    def __call__(self) -> Policy:
        policy = self.live()
        if self._cache is None or self._cache[0] is not policy:
            named = policy.summary.models
            summary = replace(policy.summary, models=resolve_models(named, self._agent_model))
            if named and self._is_demonstration:
                summary = replace(summary, no_model="the demonstration writes none: name a model with --model")
            self._cache = policy, replace(policy, summary=summary)
        return self._cache[1]


class _SummaryWriter(ProviderModel):
    """Writes summaries with the models that the settings name, else with the agent's own model at its base URL."""

    def __init__(self, own_model: str, base_url: str) -> None:
        self.model, self.base_url = own_model, base_url  # the agent has opened it already

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask."""
        if ask.model not in (self.model, SESSION_MODEL):  # the settings name it: it is not behind that URL
            return await _SummaryWriter(ask.model, "").aanswer(ask)
        return await super().aanswer(ask)


def _open_summary_writer(settings: SummarySettings, own_model: str, base_url: str) -> _SummaryWriter | None:
    """Opens what writes the summaries. Returns None if code alone writes them.

    Raises `UsageError` for a named model that cannot be opened. Under a policy that keeps its stages, one that is
    merely not set up here is none: each compaction says so, and shows those.
    """
    for name in settings.models:
        try:
            open_client(name)
        except UnusableModel:
            if not settings.is_strict:
                raise
    return _SummaryWriter(own_model, base_url) if settings.models or own_model != DEMONSTRATION else None
