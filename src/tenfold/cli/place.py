"""Where the commands work: the store, its sessions, and ids that may be given by their beginning."""

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
    """The store, closed again afterwards. One that does not exist is made with `make`, and then its place is told.

    Without `make` it is not: a command that only looks finds nothing in it.
    """
    where = place or default_place()
    missing = where != MEMORY and not Path(where).exists()
    store = open_store(MEMORY if missing and not make else where)
    if missing and make:
        note(f"store: {where}")
    try:
        yield store
    finally:
        store.close()


def session_of(
    store: Store, row: SessionRow, *, config: Config = PUBLISHED, policy: str = "", models: Models = NO_MODELS
) -> Session:
    """The session, opened with a policy that counts for its model and asks those that write summaries.

    `policy` is by the settings in `config`, the configured one where it is ""; models named on the command line come
    before those of the settings.
    """
    name = models.agent_of(row.info.model)
    models = models.chosen(name)
    made = config.policy(counter_for(name or None).counter, policy)
    if made.summary.models and not models.summaries:
        models = models.written_by(made.summary.models, name)
    if models.summaries:
        made = replace(made, summary=replace(made.summary, models=models.summaries))
    place, archive = Place(store, row.info.id, NAMESPACE), config.archive(policy)
    answerer = extended(models.answerer, config.extensions(policy))
    return Session(place, made, model=name, answerer=answerer, archive=archive)
