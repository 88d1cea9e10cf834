"""Measures how far the calibrated Reading is from what the provider reported next, over recorded sessions with usage.

    PYTHONPATH=src python yardstick/bench/meter_replay.py [FOLDER]

FOLDER holds the sessions (default: TENFOLD_SESSIONS, or else ../shared/data). Each request of a recorded run is
predicted from what was reported before it, and then its own report is learned. Three kinds of requests are shown
separately: the first of a run, which has nothing to learn from, the first after a real compaction, and the first after
a simulated change of model (from the middle on, another model of the family reports 0.8 or 1.3 times the tokens).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.meter.counters import BytePairCounter, CharacterCounter, Counter, measure_messages
from tenfold.core.meter.estimators import Calibration, expire_reports, record_usage
from tenfold.core.meter.reading import AnchoredEstimator, Estimator
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.core.record.token_reading import Counted

Json = dict[str, Any]


class RecordedRequest(Struct, frozen=True):
    """One request of a recorded run: the messages sent, what was reported, and whether a compaction came before."""

    messages: tuple[Message, ...]
    usage: Usage
    status: Status = "ok"
    compacted: bool = False
    switched: bool = False


class Miss(Struct, frozen=True):
    """The relative error of a prediction. `when` names the cases that are reported separately."""

    error: float
    when: Literal["first", "next", "compacted", "switched"]
    prompt: int


def find_folder(path: str = "") -> Path:
    """Returns the folder of the recorded sessions: the given one, the environment's, or the one beside the checkout."""
    named = path or os.environ.get("TENFOLD_SESSIONS", "")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def read_runs(data: Path) -> dict[str, list[RecordedRequest]]:
    """Reads the recorded runs with usage, by name."""
    found = {
        "pi": read_pi(data / "pi" / "before-compaction.jsonl"),
        "claude-code": read_claude_code(data / "claude-code" / "large-conversation.jsonl"),
    }
    for name in ("django__django-11299", "django__django-10097"):
        found[f"openhands {name[-5:]}"] = read_openhands(data / "openhands-requests", name)
    return found


def read_pi(path: Path) -> list[RecordedRequest]:
    """Reads a pi session. Every answer has usage. A compaction keeps a summary and the entries from an index on."""
    requests: list[RecordedRequest] = []
    shown: list[tuple[int, Message]] = []
    compacted = False
    for index, line in enumerate(path.read_text("utf-8").splitlines()):
        row: Json = json.loads(line)
        if row["type"] == "compaction":
            kept = [(at, m) for at, m in shown if at >= row["firstKeptEntryIndex"]]
            shown = [(-1, Message("user", (Text(row["summary"]),), "tenfold")), *kept]
            compacted = True
        if row["type"] != "message":
            continue
        body: Json = row["message"]
        message = _parse_pi_message(body)
        if message.role == "assistant":
            u: Json = body["usage"]
            usage = Usage.build(u["input"] + u["cacheRead"] + u["cacheWrite"], u["output"], model=body["model"])
            requests.append(RecordedRequest(tuple(m for _, m in shown), usage, message.status, compacted))
            if message.status != "ok":
                continue
            compacted = False
        shown.append((index, message))
    return requests


def _parse_pi_message(body: Json) -> Message:
    role: str = body["role"]
    if role == "toolResult":
        content = tuple(p for p in _parse_parts(body["content"]) if isinstance(p, Text | Image))
        return Message("tool", (ToolResult(body["toolCallId"], body["toolName"], content),), "tool")
    if role == "bashExecution":
        return Message("user", (Text(f"{body['command']}\n{body['output']}"),), "tool")
    if role == "user":
        return Message("user", tuple(_parse_parts(body["content"])), "human")
    ended: str = body["stopReason"]
    status: Status = "aborted" if ended == "aborted" else "error" if ended == "error" else "ok"
    return Message("assistant", tuple(_parse_parts(body["content"])), "model", status)


def read_claude_code(path: Path) -> list[RecordedRequest]:
    """Reads a Claude Code file. The lines of one answer share a message id, and the first one carries its usage."""
    requests: list[RecordedRequest] = []
    shown: list[Message] = []
    newest = ""
    for line in path.read_text("utf-8").splitlines():
        row: Json = json.loads(line)
        if row["type"] not in {"user", "assistant"}:
            continue
        body: Json = row["message"]
        if row["type"] == "assistant" and body["id"] != newest:
            newest, u = body["id"], body["usage"]
            prompt = u["input_tokens"] + u["cache_read_input_tokens"] + u["cache_creation_input_tokens"]
            requests.append(RecordedRequest(tuple(shown), Usage.build(prompt, u["output_tokens"], model=body["model"])))
        role: Literal["user", "assistant"] = "user" if row["type"] == "user" else "assistant"
        shown.append(Message(role, tuple(_parse_parts(body["content"])), "model" if role == "assistant" else "human"))
    return requests


def read_openhands(data: Path, name: str) -> list[RecordedRequest]:
    """Reads an OpenHands run. Its last request holds all messages; the usage list says how many each request had.

    If the list starts over, the part before belongs to an earlier try whose messages are not recorded, and is left out.
    """
    body: Json = json.loads((data / f"{name}.json").read_text("utf-8"))
    usages: list[Json] = json.loads((data / "usage.json").read_text("utf-8"))[name]
    start = max(i for i, u in enumerate(usages) if i == 0 or u["messages"] <= usages[i - 1]["messages"])
    messages = [_parse_openai_message(m) for m in body["messages"]]
    return [
        RecordedRequest(
            tuple(messages[: u["messages"]]),
            Usage.build(u["prompt_tokens"], u["completion_tokens"], model="claude-3-5"),
        )
        for u in usages[start:]
        if u["messages"] <= len(messages)
    ]


def _parse_openai_message(body: Json) -> Message:
    parts = tuple(_parse_parts(body.get("content") or []))
    if body["role"] == "tool":
        content = tuple(p for p in parts if isinstance(p, Text | Image))
        return Message("tool", (ToolResult(body["tool_call_id"], body["name"], content),), "tool")
    calls = (c["function"] for c in body.get("tool_calls") or [])
    called = tuple(ToolCall("", c["name"], c["arguments"]) for c in calls)
    return Message(body["role"], (*parts, *called), "model" if body["role"] == "assistant" else "human")


def _parse_parts(content: str | list[Json]) -> Iterator[Part]:
    blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        match block["type"]:
            case "text":
                yield Text(block["text"])
            case "thinking":
                yield Thinking(block["thinking"])
            case "toolCall":
                yield ToolCall(block["id"], block["name"], _encode_json(block["arguments"]))
            case "tool_use":
                yield ToolCall(block["id"], block["name"], _encode_json(block["input"]))
            case "tool_result":
                inner = tuple(
                    p for p in _parse_parts(block.get("content") or "") if isinstance(p, Text | Image | Document)
                )
                yield ToolResult(block["tool_use_id"], "", inner)
            case "image":
                yield Image()
            case "document":
                yield Document(data=block["source"].get("data", ""))
            case kind:
                yield OpaquePart(kind, json.dumps(block).encode())


def _encode_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def switch_model(requests: Sequence[RecordedRequest], scale: float) -> list[RecordedRequest]:
    """Returns the same run as if another model had answered from its middle on, reporting `scale` times the tokens."""
    middle = len(requests) // 2
    later = [
        replace(r, usage=replace(r.usage, prompt=round(r.usage.prompt * scale), model=f"{r.usage.model}-other"))
        for r in requests[middle:]
    ]
    return [*requests[:middle], replace(later[0], switched=True), *later[1:]]


def find_misses(
    requests: Sequence[RecordedRequest], counter: Counter, estimator: Estimator | None = None
) -> list[Miss]:
    """Predicts each request from those before it. Aborted answers and empty usage are neither counted nor learned."""
    estimates = estimate_requests(requests, counter)
    anchors = Calibration()
    found: list[Miss] = []
    for request, estimate in zip(requests, estimates, strict=True):
        usage = request.usage
        if request.compacted:
            anchors = expire_reports(anchors)
        if request.status != "ok" or usage.prompt <= 0:
            continue
        reading = (estimator or AnchoredEstimator()).read(
            Counted(estimate), anchors, model=usage.model, window=None, counter=counter.name
        )
        when: Literal["first", "next", "compacted", "switched"] = "first" if not found else "next"
        when = "compacted" if request.compacted else "switched" if request.switched else when
        found.append(Miss((reading.tokens - usage.prompt) / usage.prompt, when, usage.prompt))
        anchors = record_usage(anchors, usage, Counted(estimate), counter.name, status=request.status)
    return found


def estimate_requests(requests: Sequence[RecordedRequest], counter: Counter) -> list[int]:
    """Counts the messages of each request, each message once."""
    unique = list({id(m): m for r in requests for m in r.messages}.values())
    known = dict(zip(map(id, unique), measure_messages(unique, counter), strict=True))
    return [sum(known[id(m)] for m in r.messages) for r in requests]


def _format_line(name: str, counter: str, found: Sequence[Miss]) -> str:
    usual = sorted(abs(m.error) for m in found if m.when in {"next", "compacted"})
    compactions = " ".join(f"{m.error:+.2%}" for m in found if m.when == "compacted") or "-"
    p95 = usual[int(len(usual) * 0.95)]
    return (
        f"{name:18} {counter:7} {len(usual):5} {found[0].error:+8.1%} {statistics.median(usual):8.3%} {p95:8.2%} "
        f"{usual[-1]:8.2%}  {compactions}"
    )


def main() -> None:
    """Prints the tables."""
    found = read_runs(find_folder(sys.argv[1] if len(sys.argv) > 1 else ""))
    counters: tuple[Counter, ...] = (BytePairCounter("o200k"), CharacterCounter())
    print("error of the Reading on the next request, from the second request on (first request apart)")
    print(f"{'run':18} {'counter':7} {'n':>5} {'first':>8} {'median':>8} {'p95':>8} {'worst':>8}  after a compaction")
    for name, requests in found.items():
        for counter in counters:
            print(_format_line(name, counter.name, find_misses(requests, counter)))
    print()
    print("the same with another correction until 2,000 tokens of growth were seen: only the first few requests differ")
    for factor in (1.0, 1.23):
        for name, requests in found.items():
            print(
                _format_line(name, f"x{factor}", find_misses(requests, counters[0], AnchoredEstimator(factor=factor)))
            )
    print()
    print(
        "the first request after a simulated change of model, which reports 0.8, 1.0 or 1.3 x the tokens; then the rest"
    )
    for name, requests in found.items():
        for scale in (0.8, 1.0, 1.3):
            after = find_misses(switch_model(requests, scale), counters[0])
            at = next((i for i, m in enumerate(after) if m.when == "switched"), None)
            if at is None:
                continue
            rest = [abs(m.error) for m in after[at + 1 :]]
            print(
                f"{name:18} o200k x{scale}: {after[at].error:+.2%}; later median {statistics.median(rest):.3%}, "
                f"worst {max(rest):.2%}"
            )


if __name__ == "__main__":
    main()
