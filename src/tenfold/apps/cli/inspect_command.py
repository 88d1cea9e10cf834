"""`tenfold inspect`: serves the pages over the store until it is stopped."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

import typer

from tenfold.apps.cli.console import print_note, show
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    NO_MODELS,
    NamespaceOption,
    StoreOption,
    complete_session,
    find_location,
    open_cli_store,
    open_session,
    parse_models,
    purge_jobs,
)
from tenfold.apps.gateway.gateway_settings import KEY_VARIABLE, list_gateways
from tenfold.config.policies import POLICIES
from tenfold.config.settings import Config, load_settings
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.store.base import SessionRow, Store
from tenfold.store.lookup import find_session

_FirstSessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="[SESSION]",
        help="The session to open first: its id, or `last`. Default: the list.",
        autocompletion=complete_session,
    ),
]


class _Keeper:
    """Opens sessions as the commands do, and knows where durable jobs are."""

    def __init__(self, config: Config, location: str) -> None:
        self._config, self._location = config, location

    def open(
        self, store: Store, row: SessionRow, *, namespace: str, head: str, policy: str = "", model: str = ""
    ) -> Session:
        models = parse_models([model]) if model else NO_MODELS
        return open_session(
            store, row, namespace=namespace, config=self._config, policy=policy, models=models, head=head
        )

    def list_policies(self) -> list[str]:
        return [*POLICIES, *(name for name in self._config.presets if name not in POLICIES)]

    def purge_jobs(self, namespace: str, session: str) -> None:
        purge_jobs(self._location, namespace, [session])


def _check_gateway(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"the gateway {url!r} is no address: write it as http://127.0.0.1:8787")
    return url.rstrip("/")


def inspect_store(  # noqa: PLR0913 - a parameter for each option
    session: _FirstSessionArgument = "",
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen on. One that others can reach asks each visitor for a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port, 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A gateway whose requests are shown as they pass; give it again for another. Its key is read from "
            "TENFOLD_GATEWAY_KEY. Default: the address of `tenfold serve` in your settings.",
        ),
    ] = None,
    readings: Annotated[
        list[Path] | None,
        typer.Option(
            parser=parse_path,
            metavar="PATH",
            help="Show the answers of a reading test beside the views that gave them: a folder or file that `tenfold "
            "eval reading --record` wrote. Give the folder of the question files as well if it is another.",
        ),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> None:
    """Opens a page in your browser that shows every session of the store: what the model sees, and what to do about it.

    The address works once, on this machine only. With --host, others sign in with a key of the store. Ctrl-C stops it.
    """
    try:
        from tenfold.apps.inspector.application import Inspector  # noqa: PLC0415 - an optional extra
        from tenfold.apps.inspector.readings import load_readings  # noqa: PLC0415 - the same
        from tenfold.apps.inspector.server import run_inspector  # noqa: PLC0415 - the same
        from tenfold.apps.inspector.visits import PageSources  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise UsageError(f"the pages need {exc.name}: pip install 'tenfold[inspect]'") from exc
    config = load_settings()
    with open_cli_store(store) as place:
        first = find_session(place, session, namespace=namespace).info.id if session else ""
        target = f"/session?id={quote(first, safe='')}" if first else "/"

        def announce(url: str, token: str) -> None:
            address = f"{url}/?token={token}&next={quote(target, safe='')}" if token else url
            show(f"inspector: {address}")
            print_note("it opens once; stop with Ctrl-C" if token else "a visitor signs in with a key of the store")
            if browser and token:
                webbrowser.open(address)

        urls = tuple(_check_gateway(url) for url in gateway or list_gateways(config, os.environ))
        record = load_readings(readings) if readings else None
        sources = PageSources(urls, os.environ.get(KEY_VARIABLE, ""), record)
        keeper = _Keeper(config, find_location(store))
        inspector = Inspector(place, keeper, namespace=namespace, host=host, sources=sources)
        run_inspector(inspector, host=host, port=port, announce=announce)
