"""What came of a tool call: ok or not, and the lines of its output that name an error."""

from __future__ import annotations

import re

from msgspec import Struct

from tenfold.record.block import Fact
from tenfold.summarize.facts.calls import Doing
from tenfold.summarize.facts.shell import only_looks
from tenfold.summarize.facts.text import clip, flat, key_of, plain

MOST_LINES = 5
"""Error lines kept of one tool result."""

_EXIT = re.compile(r"exit(?:ed)?(?:[ _]with)?(?:[ _](?:code|status))\"?[:=\s]+(-?\d{1,5})\b", re.IGNORECASE)
_REFUSED = (
    "the user doesn't want",
    "request interrupted",
    "command aborted",
    "operation aborted",
    "user rejected",
    "user declined",
    "cancelled by user",
    "canceled by user",
)
_STARTS = re.compile(
    r"^\s*(?:<tool_use_error>|error\b|\[error|exception\b|failed\b|failure\b|could not find\b"
    r"|no replacement was performed|no changes made"
    r"|invalid\b|traceback|your proposed edit has introduced|string to replace not found|old_?str)",
    re.IGNORECASE,
)
_PYTHON = re.compile(r"^(?:E\s+)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)(?::\s?.*)?$")
_NAMED = re.compile(
    r"^\s*(?:(?:FAILED|ERROR)\s+[\w./\\-]+|(?:FAIL|ERROR):\s|--- FAIL:|not ok \d|FAIL\s+\S+"
    r"|[\w./@-]+:\d+(?::\d+)?:?\s+(?:-\s+)?(?:fatal\s+)?error\b"
    r"|[\w./@-]+\(\d+,\d+\):\s+error\b|(?:[\w./-]+:\s*)?error(?:\[\w+\])?:\s|fatal:\s|panic:\s|npm (?:ERR!"
    r"|error)\s+(?:code|Missing|Could|404|notarget)"
    r"|(?:[\w./-]+: )*(?:line \d+: )?.{1,80}: (?:command not found|No such file or directory|Permission denied)"
    r"|[×✗✖❌✘]\s+\S"
    r"|.*\berror TS\d+|Segmentation fault|\w*Error: |Uncaught |Unhandled|.*\b[1-9]\d* (?:tests? )?(?:failed"
    r"|failures?|errors?)\b(?!\s*[=:]\s*0)"
    r"|Found [1-9]\d* errors?|CONFLICT \()"
)
_HINTS = (
    "rror",
    "ERR!",
    "FAIL",
    "fail",
    "xception",
    "fatal",
    "panic",
    "not ok",
    "not found",
    "No such",
    "denied",
    "fault",
    "×",
    "✗",
    "✖",
    "❌",
    "✘",
    "CONFLICT",
    "Interrupt",
    "Exit",
    "Uncaught",
    "Unhandled",
)
_NOISE = re.compile(
    r"\(none\)|\b0 (?:errors?|failed|failures?)\b|no errors|error(?:s)?[-_ ]?(?:handl|messag|boundar)|^\s*(?:\*|//|#"
    r"|\d+[:|\t])",
    re.IGNORECASE,
)


_NO_CHANGE = re.compile(
    r"no changes (?:made|to make)|identical|exactly the same|already exists|has not been read|not been read yet"
)
_SEARCHES = re.compile(r"^(?:\w+__)*(?:grep|glob|search\w*|find\w*|list\w*|ls|web\w*|fetch\w*)$", re.IGNORECASE)
_TAG = re.compile(r"</?tool_use_error>")
_PROMPT = re.compile(
    r"^(?:bash-\$|\S+@\S+[:#$]|\(Open file|\(Current directory|\(no output\)|(?:Command|Directory|Signal"
    r"|Background PIDs|Process Group PGID): |(?:Output|Error): \((?:none|empty)\))"
)


class Result(Struct, frozen=True):
    """The outcome of a call: `ok`, a short `note` of it for the command fact, and the error facts."""

    ok: bool
    note: str
    errors: tuple[Fact, ...] = ()


def exit_code(text: str) -> int | None:
    """The exit code a tool's output states at its beginning or its end, None if it states none."""
    edge = text[:300] if len(text) <= 300 else text[:200] + "\n" + text[-400:]
    if "xit" not in edge:
        return None
    found = _EXIT.findall(edge)
    return int(found[-1]) if found else None


def judge(doing: Doing, text: str, *, flagged: bool, at: int) -> Result:
    """Reads a tool's output. `flagged`: the format itself marked the result as an error."""
    head = text[:200].lower()
    if any(mark in head for mark in _REFUSED):
        return Result(ok=False, note="stopped by the user")
    code = exit_code(text) if doing.verb in {"shell", "other"} else None
    shell = doing.verb == "shell"
    starts = doing.verb not in {"read", "view"} and bool(_STARTS.match(text)) and not (shell and code == 0)
    failed = flagged or code not in {None, 0} or (starts and len(text) < 4_000)
    note = "ok" if not failed else f"exit {code}" if code else "failed"
    if shell and only_looks(doing.source):
        return Result(ok=not failed, note=note)
    lines = error_lines(text) if shell or failed else []
    if failed and not lines:
        lines = _telling_line(text, first=not shell)
    if not failed and lines:
        note = "errors in output"
    settled = doing.verb in {"read", "todo"} or bool(_NO_CHANGE.search(head)) or bool(_SEARCHES.match(doing.source))
    errors = [
        Fact(kind="error", text=line, key=key_of(line), at=at, live=not settled, note=doing.source) for line in lines
    ]
    return Result(ok=not failed and not lines, note=note, errors=tuple(errors))


def error_lines(text: str) -> list[str]:
    """Up to five lines of a text that name an error, verbatim on one line each, bounded; the last traceback wins."""
    if not any(hint in text for hint in _HINTS):
        return []
    found: dict[str, str] = {}
    for raw in plain(text[:60_000] + ("\n" + text[-60_000:] if len(text) > 60_000 else "")).split("\n"):
        if len(raw) > 2_000 or not any(hint in raw for hint in _HINTS):
            continue
        line = flat(raw)
        if (_PYTHON.match(line) or _NAMED.match(line)) and not _NOISE.search(line):
            found.pop(key_of(line), None)
            found[key_of(line)] = clip(line, 300)
    return _spread(list(found.values()))


def _spread(lines: list[str]) -> list[str]:
    """First two and last three when there are too many: causes come first, totals last."""
    return lines if len(lines) <= MOST_LINES else [*lines[:2], *lines[-(MOST_LINES - 2) :]]


def _telling_line(text: str, *, first: bool) -> list[str]:
    """The line that tells most of a failure no pattern knows: the first, for a program's long output the last."""
    lines = [_TAG.sub("", flat(line)) for line in plain(text[:4_000] if first else text[-4_000:]).split("\n")]
    lines = [line for line in lines if len(line) > 3 and not _EXIT.search(line) and not _PROMPT.match(line)]
    if not lines:
        return []
    chosen = lines[0] if first or len(lines) <= 4 else lines[-1]
    return [clip(chosen, 300)] if any(c.isalpha() for c in chosen) else []
