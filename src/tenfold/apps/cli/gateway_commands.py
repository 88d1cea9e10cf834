"""Commands that run the gateway: serve as a server, wrap around one agent."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tenfold.apps.cli.console import print_note, show
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    CompactAtOption,
    DownToOption,
    NamespaceOption,
    PolicyOption,
    StoreOption,
    ThriftOption,
    build_flags,
    find_folder,
    find_location,
    open_cli_store,
)
from tenfold.apps.gateway.upstreams import parse_upstreams
from tenfold.config.settings import Config, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import UsageError
from tenfold.formats.output_file import PRIVATE_MODE
from tenfold.formats.session_files import read_regular_file
from tenfold.session.bill import build_bill
from tenfold.session.bill_text import format_dollars
from tenfold.session.ledger import BillLine
from tenfold.store.ids import get_current_time

if TYPE_CHECKING:
    from tenfold.apps.gateway.gateway_settings import GatewaySettings
    from tenfold.apps.gateway.request_log import Totals

STORE_PATIENCE = 1.0
"""Seconds that a write waits for another process's while a client waits. After that, the request goes as it came."""
UpstreamOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]URL",
        help="Where requests go: all of them, or those of one API, as in anthropic=https://HOST. The APIs are openai, "
        "anthropic and gemini; give it again for another. Default: the providers' own addresses.",
    ),
]
GatewayWindowOption = Annotated[
    int | None, typer.Option(min=1, help="The context window in tokens, for models whose window Tenfold does not know.")
]
SummaryModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model that writes the summaries, with the client's own credentials: `auto` is a cheap one of the "
        "provider, else the request's own; `none` writes them by code. Default: auto.",
    ),
]
GatewayRecallOption = Annotated[
    Literal["inside", "none"] | None,
    typer.Option(
        metavar="WHERE", help="`inside` lets the model look up what is hidden, `none` does not. Default: inside."
    ),
]
AllowOriginOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="Let the pages of this origin in, as http://localhost:3000; give it again for another. Default: no "
        "page of a browser is a client.",
    ),
]
ShadowOption = Annotated[
    bool, typer.Option("--shadow", help="Forward everything as it came, and record what would have been done.")
]
CredentialHeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A header that tells users apart, besides those whose names say so, as x-api-key does. Give it again for "
        "another.",
    ),
]


@contextmanager
def _require_gateway() -> Iterator[None]:
    """Turns a failed import within the block into a `UsageError` that says what to install."""
    try:
        yield
    except ImportError as exc:
        raise UsageError(f"the gateway needs {exc.name}: pip install 'tenfold[serve]'") from exc


def _build_settings(config: Config, upstream: Sequence[str] | None, **flags: object) -> GatewaySettings:
    """Builds the settings of a gateway from the flags of a command.

    Flags that were not given are left to the environment and the settings file. Raises `UsageError` for a wrong one,
    and for a policy that does not exist or cannot be built.
    """
    from tenfold.apps.gateway.gateway_settings import load_gateway_settings  # noqa: PLC0415 - an optional extra

    given = {name: value for name, value in flags.items() if value is not False and value not in (None, "")}
    settings = load_gateway_settings(config, parse_upstreams(upstream or ()) | given)
    config.build_policy(choose_counter(None).counter, settings.policy)
    return settings


WorkersOption = Annotated[
    int, typer.Option(min=1, help="How many processes serve the port. They share the store. Default: 1.")
]
JobsOption = Annotated[
    bool,
    typer.Option(
        "--jobs",
        help="Have summaries that are needed soon written as durable jobs, by the model of your settings. With a file "
        "as the store this process does them, with a database `tenfold worker` does.",
    ),
]
DryRunOption = Annotated[
    Path | None,
    typer.Option(
        parser=parse_path,
        metavar="FILE",
        help="Print what would be sent for the request in this file (- for standard input).",
    ),
]


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
    workers: WorkersOption = 1,
    jobs: JobsOption = False,
    dry_run: DryRunOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> int:
    """Runs a gateway: point an agent's base URL at it, and its requests stay within the model's window.

    The base URL is http://127.0.0.1:8787/v1, without /v1 where the agent adds that itself. The agent needs no change,
    and its credentials go to the provider as they are. Requests that fit are forwarded as they came. Set
    TENFOLD_GATEWAY_KEY to require a key, which every address but loopback needs.
    """
    with _require_gateway():
        from tenfold.apps.gateway import dry_run as dry_runs  # noqa: PLC0415 - an optional extra, and slow to load
    config = load_settings(flags=build_flags(compact_at, down_to, thrift))
    settings = _build_settings(
        config,
        upstream,
        host=host,
        port=port,
        window=window,
        policy=policy,
        summary_model=summary_model,
        recall=recall,
        shadow=shadow,
        credential_headers=credential_header,
        namespace=namespace,
        allow_origin=allow_origin,
        jobs=jobs,
    )
    if dry_run is not None:
        show(dry_runs.describe_dry_run(settings, config, _read_request(dry_run)))
        return 0
    _run_server(settings, config, store, workers)
    return 0


def _run_server(settings: GatewaySettings, config: Config, store: str | None, workers: int) -> None:
    """Serves in this process, or in so many others."""
    from tenfold.apps.gateway.application import Gateway  # noqa: PLC0415 - an optional extra, and slow to load
    from tenfold.apps.gateway.server import run_gateway  # noqa: PLC0415 - the same
    from tenfold.apps.gateway.workers import LOG_FORMAT, WorkerPlan, run_workers  # noqa: PLC0415 - the same

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)

    def announce(url: str) -> None:
        by = f", {workers} workers" if workers > 1 else ""
        print_note(f"the gateway listens on {url}{by}; sessions: tenfold sessions")

    if workers > 1:
        run_workers(WorkerPlan(settings, config, find_location(store), STORE_PATIENCE), workers, announce)
        return
    with open_cli_store(store, create=True, busy_seconds=STORE_PATIENCE) as place, ExitStack() as stack:
        jobs = None
        if settings.jobs:
            from tenfold.apps.jobs.hosting import host_jobs  # noqa: PLC0415 - an optional extra

            jobs = stack.enter_context(host_jobs(place, find_location(store), config, policy=settings.policy))
        run_gateway(Gateway(settings, place, config, jobs=jobs), announce)


def _read_request(path: Path) -> bytes:
    return sys.stdin.buffer.read() if str(path) == "-" else read_regular_file(path)


LOG_NAME = "wrap.log"
LOG_BYTES = 5_000_000


def wrap(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The agent and its arguments, as you would type them.")
    ],
    *,
    upstream: UpstreamOption = None,
    window: GatewayWindowOption = None,
    policy: PolicyOption = "",
    compact_at: CompactAtOption = "",
    down_to: DownToOption = "",
    thrift: ThriftOption = None,
    summary_model: SummaryModelOption = None,
    recall: GatewayRecallOption = None,
    shadow: ShadowOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> int:
    """Runs an agent in the foreground, and keeps its requests within the model's window meanwhile.

    The agents known by name are claude, codex, pi, opencode, kilo, cline, cn, qwen, kimi, copilot, gemini, aider, llm,
    mini and openhands. Any other works if it reads OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL.

    A gateway is started on a free port, and the agent is told its address for this run only, by variables, options or a
    temporary copy of its configuration: what you have configured stays as it is, and an address of your own becomes the
    gateway's upstream. Options for this command come before the agent's name. Its exit code is the agent's.
    """
    with _require_gateway():
        from tenfold.apps.gateway.client_overlays import overlay_client  # noqa: PLC0415 - an optional extra, slow to load
        from tenfold.apps.gateway.gateway_routes import GatewayRoutes  # noqa: PLC0415 - the same
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(
            f"there is no program {command[0]!r} that can be run: give the command as you would type it in a shell"
        )
    config = load_settings(flags=build_flags(compact_at, down_to, thrift))
    settings = _build_settings(
        config,
        upstream,
        window=window,
        policy=policy,
        summary_model=summary_model,
        recall=recall,
        shadow=shadow,
        namespace=namespace,
    )
    log, begun = _find_log_path(store), get_current_time()
    with open_cli_store(store, create=True, busy_seconds=STORE_PATIENCE) as place, _write_log(log):
        with (
            GatewayRoutes(settings, place, config) as routes,
            overlay_client(command, routes, environ=os.environ, folder=Path.cwd()) as run,
        ):
            code = run_foreground((program, *run.command[1:]), run.environ)
        totals = routes.sum_totals()  # all requests have ended by now
        bill = build_bill(place, namespace=settings.namespace, sessions=totals.sessions, since=begun).total
        print_note(describe_totals(totals, bill, log, is_shadow=settings.shadow), style="")
    return code


def describe_totals(totals: Totals, bill: BillLine, log: Path, *, is_shadow: bool = False) -> str:
    """Returns the line that is printed at the end. Its figures are those of the bill of the run.

    With `is_shadow`, where nothing is stored, it says what would have been saved.
    """
    if not totals.requests:
        return (
            "tenfold: no request came through the gateway. If the program made some, it has its address from elsewhere "
            "than the usual variables: run `tenfold serve --upstream URL` with that address, and set the gateway's in "
            f"its place; log: {log}"
        )
    parts = [_count(totals.requests, "request"), _count(totals.compactions, "compaction")]
    if is_shadow:
        saved, whole = int(totals.tokens_before - totals.tokens_after), int(totals.tokens_before)
    else:
        saved, whole = bill.saved_tokens, bill.unhidden.input
    word = "would have been saved" if is_shadow else _name_gain(saved)
    share = round(100 * abs(saved) / whole) if whole else 0
    parts.append(f"{abs(saved):,} of {whole:,} input tokens {word} ({share}%)")
    if bill.unhidden_paid.total:
        saving, without = bill.saving, bill.unhidden_paid.total
        part = f"{abs(saving) / without:.0%} of the whole bill"
        parts.append(f"{format_dollars(abs(saving))} of {format_dollars(without)} {_name_gain(saving)} ({part})")
    if bill.unpriced:
        parts.append(f"no price is known for {_count(bill.unpriced, 'request')}")
    if totals.bypasses:
        parts.append(f"{totals.bypasses} forwarded as they came, see {log}")
    main = max(totals.sessions, key=lambda id_: totals.sessions[id_], default="")
    parts.append(f"inspect it: tenfold show {main}" if main else f"nothing was stored, see {log}")
    return f"tenfold: {'shadow, nothing was changed; ' if is_shadow else ''}{'; '.join(parts)}"


def _name_gain(saved: float) -> str:
    return "lost" if saved < 0 else "saved"


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def run_foreground(command: Sequence[str], environ: Any) -> int:  # noqa: ANN401 - any mapping of strings
    """Runs a program with this one's input and output, passes signals on to it, and returns its exit code.

    A program that a signal ended has the code 128 and the signal's number, as in a shell.
    """
    with subprocess.Popen(command, env=dict(environ)) as process, _pass_signals(process):  # noqa: S603 - as it was typed
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _pass_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Passes signals on. An interrupt that a terminal sends reaches the program by itself, and is not sent twice."""

    def pass_on(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and _is_foreground():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    earlier = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Whether this process is in the foreground of a terminal, which then sends an interrupt to both programs."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _find_log_path(store: str | None) -> Path:
    return find_folder(find_location(store)) / LOG_NAME


class _PrivateLog(RotatingFileHandler):
    """A log that its user alone can read, also one that was written before with other rights, and what it leaves."""

    def _open(self) -> TextIOWrapper:
        path = Path(self.baseFilename)
        path.touch(PRIVATE_MODE)
        for each in (path, Path(f"{path}.1")):
            with suppress(FileNotFoundError):
                each.chmod(PRIVATE_MODE)
        return super()._open()

    def rotate(self, source: str, dest: str) -> None:
        """Starts a new file. One that another program has open, which Windows does not move, goes on growing."""
        with suppress(PermissionError):
            super().rotate(source, dest)


@contextmanager
def _write_log(path: Path) -> Iterator[None]:
    """Sends everything that is logged to a file, since the screen is the agent's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _PrivateLog(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()
