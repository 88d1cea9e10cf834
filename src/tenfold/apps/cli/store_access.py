"""How commands open the store and its sessions, with the options and arguments for it.

The providers' clients are an extra and slow to load. They are imported here, and only if a model was named.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.source_files import find_on_this_machine, parse_path
from tenfold.apps.clients.found_sessions import choose_session
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.config.policies import POLICIES
from tenfold.config.settings import DEFAULT_CONFIG, Config, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import NotFoundError, TenfoldError, UnusableModel, UsageError
from tenfold.models.choose import AUTO, explain_no_choice, has_provider, qualify_served_model, resolve_models
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, MEMORY_LOCATION, SessionRow, Store
from tenfold.store.location import find_jobs_file, get_default_location, is_database, open_store
from tenfold.store.lookup import LAST, describe_session, find_session, find_title, has_content, list_heads
from tenfold.store.sqlite.store import BUSY_SECONDS


def complete_values(*values: str) -> Callable[[str], list[str]]:
    """Returns what completes one of these values in a shell."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def complete_policy(incomplete: str) -> list[str]:
    """Completes the name of a policy in a shell: one of ours, or of the settings."""
    presets: Iterable[str] = ()
    with suppress(TenfoldError, OSError):
        presets = load_settings().presets
    return complete_values(*dict.fromkeys((*POLICIES, *presets)))(incomplete)


CompactAtOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Compact from this size on: tokens (120000), or a share of the window less the answer (60%). Default: the "
        "policy's, 85% in tenfold.",
    ),
]
DownToOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Compact down to this size, in the same form. Default: the policy's, 40%.")
]
ThriftOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="Pay less for input, from 0 (off, the default) to 1: compact earlier and deeper, at 1 from 14,000 tokens "
        "beside the system prompt and the tools down to 4,000. The agent then sees less of what was said, and has to "
        "look more up.",
    ),
]


def build_flags(compact_at: str, down_to: str, thrift: float | None) -> Mapping[str, str | float]:
    """Returns the settings that were given as flags, as `load_settings` takes them."""
    named = {"compact_at": compact_at or None, "down_to": down_to or None, "thrift": thrift}
    return {name: value for name, value in named.items() if value is not None}


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


NO_MODELS = SummaryModels()
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PLACE",
        callback=lambda place: place if place is None or is_database(place) else str(parse_path(place)),
        help="The file that keeps the sessions, postgresql://... for a database, or :memory: to keep none. Default: "
        "$TENFOLD_STORE, else that of your settings, else a file in your data folder.",
    ),
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="NAME",
        callback=lambda name: name or load_settings().common.namespace,
        help="The tenant whose sessions are meant. No other's are seen. Default: that of your settings, else default.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")]
PolicyOption = Annotated[
    str,
    typer.Option(
        help="The policy to use: one of `tenfold policies`, or of your settings. Default: that of your settings.",
        autocompletion=complete_policy,
    ),
]


def find_location(given: str | None) -> str:
    """Finds where the store is: as `--store` says, else `TENFOLD_STORE`, else the settings, else in the data folder."""
    return given or load_settings().common.store or get_default_location({})


def find_folder(location: str) -> Path:
    """Finds the folder for what belongs to a store and is a file: its own, else the data folder."""
    is_file = location != MEMORY_LOCATION and not is_database(location)
    return Path(location if is_file else get_default_location({})).absolute().parent


@contextmanager
def open_cli_store(path: str | None, *, create: bool = False, busy_seconds: float = BUSY_SECONDS) -> Iterator[Store]:
    """Opens the store, and closes it afterwards.

    With `create`, a missing store is created and its path is printed. Without it, a missing store is empty and is not
    created, for commands that only look. `busy_seconds` is how long a write waits for another process.
    """
    location = find_location(path)
    is_missing = location != MEMORY_LOCATION and not is_database(location) and not Path(location).exists()
    store = open_store(
        MEMORY_LOCATION if is_missing and not create else location,
        redact_at_rest=load_settings().common.redact_at_rest,
        busy_seconds=busy_seconds,
    )
    if is_missing and create:
        print_note(f"store: {location}")
    try:
        yield store
    finally:
        store.close()


_MOST_COMPLETIONS = 100
_MOST_TOLD = 80


_WORD = re.compile(r"[\w.,@%+=/-]+")
_SPECIAL = re.compile(r"[^\w.,@%+=/ -]+")


def list_completions(found: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    """Lists what completes a word, each with what it is, as far as a shell may be told.

    zsh evaluates both, and they may be anybody's words: a title, or what a tool printed. So what is more than one plain
    word is not offered, and of the descriptions nothing but words is left.
    """
    plain = ((value, " ".join(_SPECIAL.sub(" ", told).split())[:_MOST_TOLD]) for value, told in found)
    offered = (each for each in plain if each[0].startswith(incomplete) and _WORD.fullmatch(each[0]))
    return list(islice(offered, _MOST_COMPLETIONS))


def complete_session(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a session in a shell: ids, each with its title and file, else names that are one word.

    What cannot be read completes nothing: nobody who types wants to be told.
    """
    with suppress(TenfoldError, OSError):
        namespace = ctx.params.get("namespace") or load_settings().common.namespace
        with open_cli_store(ctx.params.get("store")) as place:
            rows = [row for row in place.list_sessions(namespace) if has_content(row)]
            meant = [row for row in rows if row.info.id.startswith(incomplete)][:_MOST_COMPLETIONS]
            about = [describe_session(row.info) or find_title(place, row, namespace=namespace) for row in meant]
        named = [(LAST, "the newest session"), *((row.info.id, told) for row, told in zip(meant, about, strict=True))]
        if incomplete:
            names = ((name, row.info.id) for row in rows for name in (row.info.title, Path(row.info.file).name))
            named += [(name, id_) for name, id_ in names if name.isascii()]
        return list_completions(dict(named).items(), incomplete)
    return []


SESSION_HELP = "A session: its id or the beginning of it, its title or file, or `last` for the newest."
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help=SESSION_HELP, autocompletion=complete_session)]


def find_stored_session(store: Store, name: str, *, namespace: str) -> SessionRow:
    """Finds a session as `find_session` does. Where it is none of the store's, the error says what else it may be."""
    try:
        return find_session(store, name, namespace=namespace)
    except NotFoundError as exc:
        raise NotFoundError("; ".join(filter(None, (str(exc), _find_next_step(store, name, namespace))))) from None


def _find_next_step(store: Store, name: str, namespace: str) -> str:
    """Finds what a name that is no session's stands for, and says how to go on. "" if it stands for nothing."""
    if name and Path(name).is_file():
        return f"{name} is a file: `tenfold import {shlex.quote(name)}` stores it"
    with suppress(NotFoundError):
        entry = store.locate(namespace, name)
        return f"{name} is an entry of the session {entry.session}: `tenfold expand {name}` prints it"
    with suppress(NotFoundError):
        found = choose_session(find_on_this_machine(lambda _: None), name)
        return f"{found.client} keeps it: `tenfold import {found.id}` stores it"
    return ""


def name_other_namespaces(store: Store, namespace: str) -> str:
    """Says where there are sessions, for a command that found none in this namespace. "" if there are none at all."""
    others = [name for name in store.list_namespaces() if name != namespace]
    verb = "has" if len(others) == 1 else "have"
    return f"--namespace {namespace} has none, {', '.join(others)} {verb}" if others else ""


def purge_jobs(location: str, namespace: str, sessions: Iterable[str]) -> None:
    """Deletes the durable jobs of sessions with what they hold of their texts, if the store has any.

    Call it before the sessions are purged: what is purged already is not found when the command is given again. Raises
    `UsageError` where there are jobs that cannot be looked at.
    """
    if find_spec("dbos") is None:
        file = find_jobs_file(location) if location != MEMORY_LOCATION and not is_database(location) else None
        if file is not None and file.exists():
            raise UsageError(
                f"{file} holds jobs that may quote it, and they cannot be read: pip install 'tenfold[jobs]', or delete "
                "that file; nothing was purged"
            )
        return
    from tenfold.apps.jobs.database import has_jobs  # noqa: PLC0415 - an optional extra, and slow to load
    from tenfold.apps.jobs.queue import JobQueue  # noqa: PLC0415 - the same

    if has_jobs(location):
        with JobQueue(location) as queue:
            for session in sessions:
                queue.purge(namespace, session)


def open_session(  # noqa: PLR0913 - all but the first two have a usual value
    store: Store,
    row: SessionRow,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    config: Config = DEFAULT_CONFIG,
    policy: str = "",
    models: SummaryModels = NO_MODELS,
    head: str = "",
) -> Session:
    """Opens a session with a policy that counts tokens for the session's model.

    `head` is the branch, "" the one that was written to last: there the client is.
    `policy` names a policy of the settings in `config`, "" the configured one. Models named on the command line come
    before those of the settings.
    """
    agent_model = models.choose_agent_model(row.info.model, config.get_common(policy).models)
    session_policy = config.build_policy(choose_counter(agent_model or None).counter, policy)
    remedy = config.explain_model_setting("openai:gpt-5-mini", policy)
    models = models.resolve(session_policy.summary, agent_model, remedy)
    summary = replace(session_policy.summary, models=models.summary_models, no_model=models.no_model)
    session_policy = replace(session_policy, summary=summary)
    head = head or list_heads(store, row.info.id, namespace=namespace)[0]
    place, archive = SessionAddress(store, row.info.id, namespace, head), config.load_archive(policy)
    answerer = models.answerer.with_extensions(config.load_extensions(policy))
    session = Session(place, session_policy, model=agent_model, answerer=answerer, archive=archive)
    session.compactor.use_window(row.info.window or None)
    return session
