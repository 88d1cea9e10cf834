"""The peers: other projects' compaction, each asked through its own public API in a process of its own.

`make peers` gives each a pinned environment in `.peers`; the scripts that run inside them are in `peers`. They speak
JSON lines and know nothing of Tenfold. What a peer cannot do is `Unable` with its reason, never a missing row.
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
"""The checkout: peers are measured there, an installed Tenfold has none."""

PATIENCE = 300.0
"""Seconds one compaction may take, the search for the setting that lands within the budget included."""

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
"""What the peers are told so that none of them phones home. The worker refuses connections besides."""

_ERRORS = "stderr.txt"


class Known(Struct, frozen=True):
    """A peer's method: `worker` is the script in `peers`, which is also the name of its environment."""

    worker: str
    method: str

    @property
    def name(self) -> str:
        """What tables call it."""
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
"""Every peer, whether it is installed here or not. By which API each is asked, docs/peers.md says."""


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
    """One peer's process: started at the first question, asked one at a time, gone when this process is."""

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
        """What the peer answers. Raises `Unable`: it says so, it ended, it took too long, its answer is no answer."""
        self._asked += 1
        return self._answered(_Request(self._asked, method, list(past), sizes_of(past), budget, window), _Answer)

    def turns(
        self, method: str, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Seconds of the peer's hook in each turn after the first, until `limit` of them are used. Raises `Unable`."""
        self._asked += 1
        request = _Turns(self._asked, method, list(past), [list(step) for step in steps], limit)
        return self._answered(request, _Timed).seconds

    def _answered(self, request: Struct, kind: type[_Kind]) -> _Kind:
        process = self._running()
        assert process.stdin is not None
        line = msgspec.json.encode(request) + b"\n"
        # In a thread: a process that hangs before it reads would stop the writer at a full pipe, not at the time-out.
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
        """Ends the process, if it runs, and removes its home. The next question starts a new one."""
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
        said = (self._home / _ERRORS).read_text(errors="replace").strip().splitlines()
        self.close()
        return f"its process ended with {process.returncode}: {said[-1][:300] if said else 'it said nothing'}"


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
        """See `Method.compact`. `seconds` are of the one call that was taken, not of the search for its setting."""
        made = self._worker.ask(self._known.method, past, budget)
        spent = (made.spent_input, made.spent_output)
        return Compacted(tuple(made.messages), tokens_of(made.messages), made.seconds, *spent, made.note)

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Seconds of its own hook before a model call, in turns that each add a step to a past it may leave alone.

        The first turn is a warm-up. When `limit` seconds are used up, no further turn is made. Raises `Unable`.
        """
        return self._worker.turns(self._known.method, past, steps, limit=limit)

    def close(self) -> None:
        """Ends the peer's process, which its other methods share. It starts anew when it is asked again."""
        self._worker.close()


class Absent(Struct, frozen=True):
    """A peer that is not installed here: it is listed, with the reason."""

    name: str
    reason: str

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        """Raises `Unable`."""
        del past, budget
        raise Unable(self.reason)

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Raises `Unable`."""
        del past, steps, limit
        raise Unable(self.reason)

    def close(self) -> None:
        """Has nothing to end."""


def peers(names: Sequence[str] = (), *, root: Path = ROOT) -> list[Peer | Absent]:
    """The named peers, or all of them; a worker's name means all its methods. Raises `UsageError` for others."""
    unknown = [n for n in names if not any(n in (k.name, k.worker) for k in PEERS)]
    if unknown:
        raise UsageError(f"no peer {unknown[0]!r}; there are {', '.join(k.name for k in PEERS)}")
    wanted = [k for k in PEERS if not names or k.name in names or k.worker in names]
    workers: dict[str, Worker] = {}
    found: list[Peer | Absent] = []
    for known in wanted:
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
    """The environment of a worker: an empty home, no proxies, no keys, and what keeps the peers quiet."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    python = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"} | ({"PYTHONPATH": str(imports)} if imports else {})
    return {**kept, **QUIET, **python, "HOME": str(home), "TMPDIR": str(home)}


def _ended(process: subprocess.Popen[bytes], home: Path) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was not sent yet cannot be sent any more
                pipe.close()
    shutil.rmtree(home, ignore_errors=True)


def _write(pipe: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # it ended before it read all: the reader notices
        pipe.write(line)
        pipe.flush()


def _read(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(ValueError):  # the pipe was closed under the reader
        for line in pipe:
            lines.put(line)
    lines.put(b"")
