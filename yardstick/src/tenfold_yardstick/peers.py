"""Runs the peers: the compaction of other projects, each through its own public API in a process of its own.

`tenfold eval peers install` makes a pinned environment for each peer in the folder `.peers`. The scripts in
`peer_workers` run inside them, exchange JSON lines and know nothing of Tenfold. If a peer cannot do something, it
raises `UnableError` with the reason, so no row is ever missing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.errors import UsageError
from tenfold.testing.chats import count_message_tokens, count_total_tokens
from tenfold.testing.methods import MethodResult, UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.environments import REQUIREMENTS, get_python, read_failure

WORKERS = Path(__file__).resolve().parent / "peer_workers"
"""The folders of the peers, each with its script and its pinned requirements. They are part of the package."""

FOLDER = Path(".peers")
"""Where the environments of the peers are, from the working folder on."""

TIMEOUT = 300.0
"""How many seconds one compaction may take, including the search for the setting that lands within the budget."""

OFFLINE_SETTINGS = {
    "AGENT_FRAMEWORK_USER_AGENT_DISABLED": "true",
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "HEADROOM_TELEMETRY": "off",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "OTEL_SDK_DISABLED": "true",
    "TRANSFORMERS_OFFLINE": "1",
}
"""Environment variables that keep the peers from sending telemetry. In addition the worker refuses all connections."""

_ERROR_FILE = "stderr.txt"
_DISTRIBUTIONS = ("{}", "{}-core", "{}-ai", "{}-sdk")


SENTENCES, NAMES = "sentences", "names"
STANDINS = (SENTENCES, NAMES)
"""What may stand in for the model that a peer summarizes with: `peer_workers/common/standin.py` has both."""
NAMES_SUFFIX = f"+{NAMES}"


class PeerMethod(Struct, frozen=True):
    """One method of a peer. `worker` is its folder in `peer_workers`, which is also the name of its environment.

    `summarizes` means that it asks a model, in whose place `standin` answers. `counts` says of what its hook before a
    model call counts the tokens.
    """

    worker: str
    method: str
    summarizes: bool = False
    counts: str = "the whole list"
    standin: str = SENTENCES

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.worker}/{self.method}" + NAMES_SUFFIX * (self.standin == NAMES)


_REPORTED, _NOTHING = "nothing: takes the reported size", "nothing"
PEERS = (
    PeerMethod("langchain", "summarization", summarizes=True),
    PeerMethod("langchain", "clear-tool-uses"),
    PeerMethod("langchain", "trim"),
    PeerMethod("pydantic-ai-harness", "summarizing", summarizes=True),
    PeerMethod("pydantic-ai-harness", "tiered", summarizes=True),
    PeerMethod("google-adk", "token-threshold", summarizes=True, counts=_REPORTED),
    PeerMethod("llama-index", "chat-summary", summarizes=True),
    PeerMethod("llama-index", "memory"),
    PeerMethod("agno", "tool-results", summarizes=True),
    PeerMethod("openai-agents", "tool-output-trimmer", counts=_NOTHING),
    PeerMethod("openai-agents", "session-limit", counts=_NOTHING),
    PeerMethod("openai-agents", "responses-compaction"),
    PeerMethod("strands-agents", "summarizing", summarizes=True, counts=_REPORTED),
    PeerMethod("strands-agents", "sliding-window", counts=_NOTHING),
    PeerMethod("agent-framework", "token-budget", summarizes=True),
    PeerMethod("deepagents", "summarization", summarizes=True),
    PeerMethod("inspect-ai", "summary", summarizes=True, counts=_REPORTED),
    PeerMethod("inspect-ai", "edit", counts=_REPORTED),
    PeerMethod("inspect-ai", "trim", counts=_REPORTED),
    PeerMethod("headroom", "compress"),
    PeerMethod("openhands", "summarizing", summarizes=True),
)
"""Every peer, whether or not it is installed. docs/peers.md says which API each one is asked through."""


class _CompactRequest(Struct, frozen=True):
    id: int
    method: str
    messages: list[ChatMessage]
    sizes: list[int]
    budget: int
    window: int | None


class _TurnsRequest(Struct, frozen=True):
    id: int
    method: str
    messages: list[ChatMessage]
    turns: list[list[ChatMessage]]
    limit: float


class _TurnsAnswer(Struct, frozen=True):
    id: int
    seconds: list[float] = []
    unable: str | None = None


class _CompactAnswer(Struct, frozen=True):
    id: int
    messages: list[ChatMessage] = []
    note: str = ""
    seconds: float = 0.0
    spent_input: int = 0
    spent_output: int = 0
    unable: str | None = None


_Kind = TypeVar("_Kind", _CompactAnswer, _TurnsAnswer)


class Worker:
    """The process of one peer.

    It starts with the first request, takes one request at a time, and ends with this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        import_folder: Path | None = None,
        standin: str = SENTENCES,
        timeout: float = TIMEOUT,
    ) -> None:
        self._command = list(command)
        self._import_folder = import_folder
        self._standin = standin
        self._timeout = timeout
        self._request_count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Path()
        self._finalizer: Callable[[], object] = lambda: None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def ask(
        self, method: str, past: Sequence[ChatMessage], budget: int, *, window: int | None = None
    ) -> _CompactAnswer:
        """Returns the peer's answer.

        Raises `UnableError` if the peer refuses, ends, takes too long or answers invalid data.
        """
        self._request_count += 1
        return self._send_request(
            _CompactRequest(self._request_count, method, list(past), count_message_tokens(past), budget, window),
            _CompactAnswer,
        )

    def time_turns(
        self, method: str, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of the peer's hook in each turn after the first, until `limit` seconds are used.

        Raises `UnableError` as `ask` does.
        """
        self._request_count += 1
        request = _TurnsRequest(self._request_count, method, list(past), [list(step) for step in steps], limit)
        return self._send_request(request, _TurnsAnswer).seconds

    def _send_request(self, request: Struct, kind: type[_Kind]) -> _Kind:
        process = self._ensure_process()
        assert process.stdin is not None
        line = msgspec.json.encode(request) + b"\n"
        # Writes in a thread: a process that never reads would block the writer at a full pipe, past the time-out.
        threading.Thread(target=_write_line, args=(process.stdin, line), daemon=True).start()
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            self.close()
            raise UnableError(f"no answer within {self._timeout:g} s, stopped") from None
        if not line:
            raise UnableError(self._explain_exit(process))
        try:
            answer = msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            self.close()
            raise UnableError(f"its answer is not of the protocol: {error}") from None
        if answer.unable is not None:
            raise UnableError(answer.unable)
        return answer

    def close(self) -> None:
        """Ends the process, if it runs, and removes its home. The next request starts a new process."""
        self._process = None
        self._finalizer()

    def _ensure_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._home = Path(tempfile.mkdtemp(prefix="tenfold-peer-"))
        with (self._home / _ERROR_FILE).open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - a script of this package in an environment of its own
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._home,
                env=build_environment(self._home, self._import_folder, standin=self._standin),
            )
        self._process = process
        self._finalizer = weakref.finalize(self, _end_process, process, self._home)
        assert process.stdout is not None
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read_lines, args=(process.stdout, self._lines), daemon=True).start()
        return process

    def _explain_exit(self, process: subprocess.Popen[bytes]) -> str:
        process.wait()
        lines = (self._home / _ERROR_FILE).read_text(errors="replace").strip().splitlines()
        self.close()
        return f"its process ended with {process.returncode}: {lines[-1][:300] if lines else 'it said nothing'}"


class Peer:
    """A peer's method as a `Method` of the comparison. Without a worker it is not installed, and `missing` says why."""

    def __init__(self, method: PeerMethod, worker: Worker | None, *, missing: str = "") -> None:
        self._method = method
        self._worker = worker
        self.missing = missing

    @property
    def name(self) -> str:
        """See `Method.name`."""
        return self._method.name

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`.

        `seconds` is the time of the one call that was used, without the search for its setting.
        """
        answer = self._get_worker().ask(self._method.method, past, budget)
        spent = (answer.spent_input, answer.spent_output)
        return MethodResult(
            tuple(answer.messages), count_total_tokens(answer.messages), answer.seconds, *spent, answer.note
        )

    def time_turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of the peer's own hook before a model call, when there is nothing to compact.

        Each turn adds a step to the past. The first turn is a warm-up. No turn is started after `limit` seconds are
        used. Raises `UnableError`.
        """
        return self._get_worker().time_turns(self._method.method, past, steps, limit=limit)

    def close(self) -> None:
        """Ends the peer's process, which its other methods share. The next request starts it again."""
        if self._worker is not None:
            self._worker.close()

    def _get_worker(self) -> Worker:
        if self._worker is None:
            raise UnableError(self.missing)
        return self._worker


def find_version(worker: str) -> tuple[str, str]:
    """Returns the distribution that a peer is, and the version that its requirements pin."""
    lines = (WORKERS / worker / REQUIREMENTS).read_text("utf-8").splitlines()
    pins = dict(line.replace("_", "-").split("==", 1) for line in lines if "==" in line and not line.startswith("#"))
    name = next(name for name in (form.format(worker) for form in _DISTRIBUTIONS) if name in pins)
    return name, pins[name]


def get_peers(
    names: Sequence[str] = (), *, folder: Path = FOLDER, standins: Sequence[str] = (SENTENCES,)
) -> list[Peer]:
    """Returns the named peers, or all of them. A worker's name stands for all of its methods.

    A peer that summarizes is returned once for each of the `standins`. Raises `UsageError` for an unknown name.
    """
    unknown = [n for n in names if not any(n in (k.name, k.worker) for k in PEERS)]
    if unknown:
        raise UsageError(f"no peer {unknown[0]!r}; there are {', '.join(k.name for k in PEERS)}")
    chosen = [
        replace(known, standin=standin)
        for known in PEERS
        if not names or known.name in names or known.worker in names
        for standin in (standins if known.summarizes else standins[:1])
    ]
    workers: dict[tuple[str, str], Worker] = {}
    found: list[Peer] = []
    for known in chosen:
        python = get_python(folder, known.worker)
        if not python.exists():
            found.append(Peer(known, None, missing=_explain_missing(folder, known)))
            continue
        key = (known.worker, known.standin)
        if key not in workers:
            script = WORKERS / known.worker / "worker.py"
            workers[key] = Worker([str(python), str(script)], import_folder=WORKERS / "common", standin=known.standin)
        found.append(Peer(known, workers[key]))
    return found


def _explain_missing(folder: Path, method: PeerMethod) -> str:
    failure = read_failure(folder, method.worker)
    if failure:
        return f"could not be installed: {failure}"
    return f"{method.worker} is not installed in {folder}: tenfold eval peers install {method.worker}"


def build_environment(home: Path, import_folder: Path | None = None, *, standin: str = SENTENCES) -> dict[str, str]:
    """Returns the environment of a worker: an empty home, no proxies, no keys, its stand-in, the `OFFLINE_SETTINGS`."""
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    python = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"} | (
        {"PYTHONPATH": str(import_folder)} if import_folder else {}
    )
    own = {"HOME": str(home), "TMPDIR": str(home), "PEER_STANDIN": standin}
    return {**variables, **OFFLINE_SETTINGS, **python, **own}


def _end_process(process: subprocess.Popen[bytes], home: Path) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # unsent data is lost anyway
                pipe.close()
    shutil.rmtree(home, ignore_errors=True)


def _write_line(pipe: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # the process ended early, which the reader notices
        pipe.write(line)
        pipe.flush()


def _read_lines(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(ValueError):  # the pipe was closed under the reader
        for line in pipe:
            lines.put(line)
    lines.put(b"")
