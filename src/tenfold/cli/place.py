"""How commands open the store and its sessions, with the options and arguments for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold.cli.screen import note
from tenfold.cli.summarizing import Models
from tenfold.extensions import extended
from tenfold.log.base import DEFAULT_NAMESPACE, SessionRow, Store
from tenfold.log.place import MEMORY, default_place, open_store
from tenfold.meter.counters import counter_for
from tenfold.session import Place, Session
from tenfold.settings import PUBLISHED, Config

NAMESPACE = DEFAULT_NAMESPACE
NO_MODELS = Models()
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH",
        help="The store's file, or :memory:. Default: the environment's TENFOLD_STORE, else the user's data folder.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line, for programs.")]
SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session's id or its beginning; `last` is the newest.")
]


@contextmanager
def opened(place: str | None, *, make: bool = False) -> Iterator[Store]:
    """Opens the store, and closes it afterwards.

    With `create`, a missing store is created and its path is printed. Without it, a missing store is empty and is not
    created, for commands that only look.
    """
    location = place or default_place()
    is_missing = location != MEMORY and not Path(location).exists()
    store = open_store(MEMORY if is_missing and not make else location)
    if is_missing and make:
        note(f"store: {location}")
    try:
        yield store
    finally:
        store.close()


def session_of(
    store: Store, row: SessionRow, *, config: Config = PUBLISHED, policy: str = "", models: Models = NO_MODELS
) -> Session:
    """Opens a session with a policy that counts tokens for the session's model.

    `policy` names a policy of the settings in `config`, "" the configured one. Models named on the command line come
    before those of the settings.
    """
    agent_model = models.agent_of(row.info.model)
    models = models.chosen(agent_model)
    session_policy = config.policy(counter_for(agent_model or None).counter, policy)
    if session_policy.summary.models and not models.summaries:
        models = models.written_by(session_policy.summary.models, agent_model)
    if models.summaries:
        session_policy = replace(session_policy, summary=replace(session_policy.summary, models=models.summaries))
    place, archive = Place(store, row.info.id, NAMESPACE), config.archive(policy)
    answerer = extended(models.answerer, config.extensions(policy))
    return Session(place, session_policy, model=agent_model, answerer=answerer, archive=archive)
