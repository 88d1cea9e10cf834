"""The command `tenfold serve`: a gateway between agents and their providers."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import print_note, show
from tenfold.apps.cli.gateway_options import (
    STORE_PATIENCE,
    AllowOriginOption,
    CredentialHeaderOption,
    GatewayRecallOption,
    GatewayWindowOption,
    ShadowOption,
    SummaryModelOption,
    UpstreamOption,
    build_settings,
    require_gateway,
)
from tenfold.apps.cli.size_options import CompactAtOption, DownToOption, ThriftOption, build_flags
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import NamespaceOption, PolicyOption, StoreOption, open_cli_store
from tenfold.config.settings import load_settings
from tenfold.formats.session_files import read_regular_file

DryRunOption = Annotated[
    Path | None,
    typer.Option(
        parser=parse_path,
        metavar="FILE",
        help="Print what would be sent for the request in this file (- for standard input).",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("serve", epilog="Example: tenfold serve --upstream http://localhost:8000/v1 --window 128000")(serve)


def serve(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    *,
    upstream: UpstreamOption = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on. One that others can reach needs a key. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port, 0 for a free one. Default: 8787.")
    ] = None,
    window: GatewayWindowOption = None,
    policy: PolicyOption = "",
    compact_at: CompactAtOption = "",
    down_to: DownToOption = "",
    thrift: ThriftOption = None,
    summary_model: SummaryModelOption = None,
    recall: GatewayRecallOption = None,
    shadow: ShadowOption = False,
    allow_origin: AllowOriginOption = None,
    credential_header: CredentialHeaderOption = None,
    dry_run: DryRunOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> int:
    """Runs a gateway: point an agent's base URL at it, and its requests stay within the model's window.

    The base URL is http://127.0.0.1:8787/v1, without /v1 where the agent adds that itself. The agent needs no change,
    and its credentials go to the provider as they are. Requests that fit are forwarded as they came. Set
    TENFOLD_GATEWAY_KEY to require a key, which every address but loopback needs.
    """
    with require_gateway():
        from tenfold.apps.gateway import dry_run as dry_runs  # noqa: PLC0415 - an optional extra, and slow to load
        from tenfold.apps.gateway.application import Gateway  # noqa: PLC0415 - the same
        from tenfold.apps.gateway.server import run_gateway  # noqa: PLC0415 - the same
    config = load_settings(flags=build_flags(compact_at, down_to, thrift))
    settings = build_settings(
        config,
        upstream=upstream,
        host=host,
        port=port,
        window=window,
        policy=policy,
        summary_model=summary_model,
        recall=recall,
        shadow=shadow,
        credential_headers=credential_header,
        namespace=namespace,
        allow_origin=allow_origin or None,
    )
    if dry_run is not None:
        show(dry_runs.describe_dry_run(settings, config, _read_request(dry_run)))
        return 0
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    with open_cli_store(store, create=True, busy_seconds=STORE_PATIENCE) as place:
        gateway = Gateway(settings, place, config)
        run_gateway(gateway, lambda url: print_note(f"the gateway listens on {url}; sessions: tenfold sessions"))
    return 0


def _read_request(path: Path) -> bytes:
    return sys.stdin.buffer.read() if str(path) == "-" else read_regular_file(path)
