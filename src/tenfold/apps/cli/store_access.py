"""How commands open the store and its sessions, with the options and arguments for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.summary_models import SummaryModels
from tenfold.config.settings import DEFAULT_CONFIG, Config, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, MEMORY_LOCATION, SessionRow, Store
from tenfold.store.location import get_default_location, open_store
from tenfold.store.lookup import list_heads
from tenfold.store.sqlite.store import BUSY_SECONDS

NO_MODELS = SummaryModels()
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH",
        callback=lambda path: path if path is None else str(parse_path(path)),
        help="The file that keeps the sessions, or :memory: to keep none. Default: $TENFOLD_STORE, else a file in your "
        "data folder.",
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
        help="The policy to use: one of `tenfold policies`, or of your settings. Default: that of your settings."
    ),
]
SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session: its id, the beginning of it, or `last` for the newest.")
]


@contextmanager
def open_cli_store(path: str | None, *, create: bool = False, busy_seconds: float = BUSY_SECONDS) -> Iterator[Store]:
    """Opens the store, and closes it afterwards.

    With `create`, a missing store is created and its path is printed. Without it, a missing store is empty and is not
    created, for commands that only look. `busy_seconds` is how long a write waits for another process.
    """
    location = path or get_default_location()
    is_missing = location != MEMORY_LOCATION and not Path(location).exists()
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
    return Session(place, session_policy, model=agent_model, answerer=answerer, archive=archive)
