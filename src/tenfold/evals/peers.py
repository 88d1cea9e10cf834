"""Runs the peers: the compaction of other projects, each through its own public API in a process of its own.

`make peers` creates a pinned environment for each peer in `.peers`. The scripts that run inside them are in `peers`.
They exchange JSON lines and know nothing of Tenfold. If a peer cannot do something, it raises `UnableError` with the
reason, so no row is ever missing.
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

from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage, sizes_of, tokens_of
from tenfold.evals.methods import Compacted, Unable

ROOT = Path(__file__).resolve().parents[3]
"""The checkout. Peers can be measured only there, since an installed Tenfold has none."""

PATIENCE = 300.0
"""How many seconds one compaction may take, including the search for the setting that lands within the budget."""

QUIET = {
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

_ERRORS = "stderr.txt"


class Known(Struct, frozen=True):
    """One method of a peer. `worker` is its folder in `peers`, which is also the name of its environment."""

    worker: str
    method: str

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.worker}/{self.method}"


PEERS = (
    Known("langchain", "summarization"),
    Known("langchain", "clear-tool-uses"),
    Known("langchain", "trim"),
    Known("pydantic-ai-harness", "summarizing"),
    Known("pydantic-ai-harness", "tiered"),
    Known("google-adk", "token-threshold"),
    Known("llama-index", "chat-summary"),
    Known("llama-index", "memory"),
    Known("agno", "tool-results"),
    Known("openai-agents", "tool-output-trimmer"),
    Known("openai-agents", "session-limit"),
    Known("openai-agents", "responses-compaction"),
    Known("strands-agents", "summarizing"),
    Known("strands-agents", "sliding-window"),
    Known("agent-framework", "token-budget"),
    Known("deepagents", "summarization"),
    Known("inspect-ai", "summary"),
    Known("inspect-ai", "edit"),
    Known("inspect-ai", "trim"),
    Known("headroom", "compress"),
    Known("openhands", "summarizing"),
)
"""Every peer, whether or not it is installed. docs/peers.md says which API each one is asked through."""


class _Request(Struct, frozen=True):
    id: int
    method: str
    messages: list[ChatMessage]
    sizes: list[int]
    budget: int
    window: int | None


class _Turns(Struct, frozen=True):
    id: int
    method: str
    messages: list[ChatMessage]
    turns: list[list[ChatMessage]]
    limit: float


class _Timed(Struct, frozen=True):
    id: int
    seconds: list[float] = []
    unable: str | None = None


class _Answer(Struct, frozen=True):
    id: int
    messages: list[ChatMessage] = []
    note: str = ""
    seconds: float = 0.0
    spent_input: int = 0
    spent_output: int = 0
    unable: str | None = None


_Kind = TypeVar("_Kind", _Answer, _Timed)


class Worker:
    """The process of one peer.

    It starts with the first request, takes one request at a time, and ends with this process.
    """

    def __init__(self, command: Sequence[str], *, imports: Path | None = None, patience: float = PATIENCE) -> None:
        self._command = list(command)
        self._imports = imports
        self._patience = patience
        self._asked = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Path()
        self._end: Callable[[], object] = lambda: None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def ask(self, method: str, past: Sequence[ChatMessage], budget: int, *, window: int | None = None) -> _Answer:
        """Returns the peer's answer.

        Raises `UnableError` if the peer refuses, ends, takes too long or answers invalid data.
        """
        self._asked += 1
        return self._answered(_Request(self._asked, method, list(past), sizes_of(past), budget, window), _Answer)

    def turns(
        self, method: str, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of the peer's hook in each turn after the first, until `limit` seconds are used.

        Raises `UnableError` as `ask` does.
        """
        self._asked += 1
        request = _Turns(self._asked, method, list(past), [list(step) for step in steps], limit)
        return self._answered(request, _Timed).seconds

    def _answered(self, request: Struct, kind: type[_Kind]) -> _Kind:
        process = self._running()
        assert process.stdin is not None
        line = msgspec.json.encode(request) + b"\n"
        # Writes in a thread: a process that never reads would block the writer at a full pipe, past the time-out.
        threading.Thread(target=_write, args=(process.stdin, line), daemon=True).start()
        try:
            line = self._lines.get(timeout=self._patience)
        except queue.Empty:
            self.close()
            raise Unable(f"no answer within {self._patience:g} s, stopped") from None
        if not line:
            raise Unable(self._last_words(process))
        try:
            answer = msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            self.close()
            raise Unable(f"its answer is not of the protocol: {error}") from None
        if answer.unable is not None:
            raise Unable(answer.unable)
        return answer

    def close(self) -> None:
        """Ends the process, if it runs, and removes its home. The next request starts a new process."""
        self._process = None
        self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._home = Path(tempfile.mkdtemp(prefix="tenfold-peer-"))
        with (self._home / _ERRORS).open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - a script of this checkout in an environment beside it
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._home,
                env=surroundings(self._home, self._imports),
            )
        self._process = process
        self._end = weakref.finalize(self, _ended, process, self._home)
        assert process.stdout is not None
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read, args=(process.stdout, self._lines), daemon=True).start()
        return process

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        process.wait()
        lines = (self._home / _ERRORS).read_text(errors="replace").strip().splitlines()
        self.close()
        return f"its process ended with {process.returncode}: {lines[-1][:300] if lines else 'it said nothing'}"


class Peer:
    """A peer's method as a `Method` of the comparison."""

    def __init__(self, known: Known, worker: Worker) -> None:
        self._known = known
        self._worker = worker

    @property
    def name(self) -> str:
        """See `Method.name`."""
        return self._known.name

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        """See `Method.compact`.

        `seconds` is the time of the one call that was used, without the search for its setting.
        """
        answer = self._worker.ask(self._known.method, past, budget)
        spent = (answer.spent_input, answer.spent_output)
        return Compacted(tuple(answer.messages), tokens_of(answer.messages), answer.seconds, *spent, answer.note)

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of the peer's own hook before a model call, when there is nothing to compact.

        Each turn adds a step to the past. The first turn is a warm-up. No turn is started after `limit` seconds are
        used. Raises `UnableError`.
        """
        return self._worker.turns(self._known.method, past, steps, limit=limit)

    def close(self) -> None:
        """Ends the peer's process, which its other methods share. The next request starts it again."""
        self._worker.close()


class Absent(Struct, frozen=True):
    """A peer that is not installed. It is listed with the reason."""

    name: str
    reason: str

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        """Raises `UnableError`."""
        del past, budget
        raise Unable(self.reason)

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Raises `UnableError`."""
        del past, steps, limit
        raise Unable(self.reason)

    def close(self) -> None:
        """Does nothing."""


def peers(names: Sequence[str] = (), *, root: Path = ROOT) -> list[Peer | Absent]:
    """Returns the named peers, or all of them. A worker's name stands for all of its methods.

    Raises `UsageError` for an unknown name.
    """
    unknown = [n for n in names if not any(n in (k.name, k.worker) for k in PEERS)]
    if unknown:
        raise UsageError(f"no peer {unknown[0]!r}; there are {', '.join(k.name for k in PEERS)}")
    chosen = [k for k in PEERS if not names or k.name in names or k.worker in names]
    workers: dict[str, Worker] = {}
    found: list[Peer | Absent] = []
    for known in chosen:
        python = root / ".peers" / known.worker / "bin" / "python"
        if not python.exists():
            found.append(Absent(known.name, _missing(root, known)))
            continue
        if known.worker not in workers:
            script = root / "peers" / known.worker / "worker.py"
            workers[known.worker] = Worker([str(python), str(script)], imports=root / "peers" / "common")
        found.append(Peer(known, workers[known.worker]))
    return found


def _missing(root: Path, known: Known) -> str:
    failed = root / ".peers" / f"{known.worker}.failed"
    if failed.exists():
        return f"could not be installed: {failed.read_text().strip()}"
    return f"{known.worker} is not installed: `make peers` in a checkout of Tenfold"


def surroundings(home: Path, imports: Path | None = None) -> dict[str, str]:
    """Returns the environment of a worker: an empty home, no proxies, no keys, and the `OFFLINE_SETTINGS`."""
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    python = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"} | ({"PYTHONPATH": str(imports)} if imports else {})
    return {**variables, **QUIET, **python, "HOME": str(home), "TMPDIR": str(home)}


def _ended(process: subprocess.Popen[bytes], home: Path) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # unsent data is lost anyway
                pipe.close()
    shutil.rmtree(home, ignore_errors=True)


def _write(pipe: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # the process ended early, which the reader notices
        pipe.write(line)
        pipe.flush()


def _read(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(ValueError):  # the pipe was closed under the reader
        for line in pipe:
            lines.put(line)
    lines.put(b"")
