"""Judges tool results: whether a call succeeded, and which lines of its output name an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from tenfold.calls.doing import Doing
from tenfold.calls.shell import Effect, only_looks
from tenfold.record.block import Fact
from tenfold.redact import redact
from tenfold.remembering import remembered
from tenfold.text import clip, edges, flat, head_of, key_of, plain, tail_of
from tenfold.view.units import NO_RESULT

MOST_LINES = 6
"""Most error lines kept of one tool result."""
_NAMES_ERRORS = "errors in output"

_EXIT = re.compile(
    r"exit(?:ed)?(?:[ _]with)?(?:[ _](?:code|status))\"?[:=\s]+(-?\d{1,5})\b|\bexit[=:] ?(-?\d{1,5})\s*\Z",
    re.IGNORECASE,
)
_FLAG = "[tool error]\n"
"""Marks a failed call in the chat format, which has no field for it."""
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
_UNDONE = re.compile(
    r"^\s*(?:\[errno \d+\]|e[a-z]{3,12}: |access denied|permission denied|cannot\b|can't\b|unable to\b|no match\b"
    r"|.{0,80}\b(?:(?<!\d )not found|does not exist|timed out)\b"
    r"|(?:the |your )?(?:edit|change|patch|tool|command|call|file|write)\b.{0,40}\b(?:rejected|denied|failed)\b)",
    re.IGNORECASE,
)
"""Matches what a tool prints when it did not change a file, besides `_FAILURE_START`."""
_EXCEPTION = re.compile(
    r"^(?:E\s+|Error: )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?::\s?.*)?$|^(?:Uncaught"
    r"|Unhandled)\s\S"
    r"|^\s*(?:[\w./-]+:\s*)?(?:fatal )?error(?:\[\w+\])?:\s|^\s*\w*Error: |^(?:fatal|panic|thread '.*' panicked)\b.*:\s"
    r"|^Segmentation fault|^.*\berror TS\d+|^.{0,160}: syntax error\b|^SyntaxError"
)
_LOCATED = re.compile(
    r"^(?:\[[^\]]{1,40}\] \| )?/?(?:[\w@.-]+/)*[\w@.-]+\.\w{1,5}(?::\d+(?::\d+)?:?|\(\d+,\d+\):?)\s+(?:-\s+)?"
    r"(?:(?:fatal\s+)?error|lint/|[A-Z]{1,4}\d{2,5})\S*"
)
_NAMED = re.compile(
    r"^\s*(?:- [EF]\d{3} \w|(?:FAILED|ERROR)\s+[\w./\\-]+|(?:FAIL|ERROR):\s|--- FAIL:|not ok \d|FAIL\s+\S+|CONFLICT \("
    r"|! \[(?:remote )?rejected\]"
    r"|No test(?:s| files?)\b.{0,20}\bfound"
    r"|.{1,160}: (?:command not found|No such file or directory|[Pp]ermission denied))"
)
_MARKED = re.compile(r"^\s*[\u00d7\u2717\u2716\u274c\u2718\u276f]\s+\S")
_TOTAL = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b(?!\s*[=:]\s*0)|^Found [1-9]\d* errors?"
    r"|^npm (?:ERR!|error)\s+(?:code|Missing|Could|404|notarget)"
)
_RANKS = ((0, _LOCATED), (1, _EXCEPTION), (1, _NAMED), (3, _MARKED), (4, _TOTAL))
"""Patterns for error lines with their ranks. Low ranks say most; totals and marks are dropped first."""
_HINT = re.compile(
    r"rror|ERROR|ERR!|FAIL|fail|xception|fatal|panic|not ok|not found|found,|No such|enied|fault|rejected|CONFLICT"
    r"|Interrupt|Exit|Uncaught"
    r"|Unhandled|lint/|- [EF]\d{3} |[\u00d7\u2717\u2716\u274c\u2718\u276f]|:\d+:\d+:? [A-Z]"
)
_NOISE = re.compile(
    r"\(none\)|\b0 (?:errors?|failed|failures?)\b|no errors|error(?:s)?[-_ ]?(?:handl|messag|boundar)|^\s*(?:\*|//|#"
    r"|\d+[:|\t])",
    re.IGNORECASE,
)


_NO_CHANGE = re.compile(
    r"no changes (?:made|to make)|identical|exactly the same|already exists|has not been read|not been read yet"
)
_CHANGES = frozenset({"write", "modify", "delete", "rename"})
_SEARCHES = re.compile(r"^(?:\w+__)?(?:grep|glob|search\w*|find\w*|list\w*|ls|web\w*|fetch\w*)$", re.IGNORECASE)
_TAG = re.compile(r"</?tool_use_error>")
_PROMPT = re.compile(
    r"^\w+:$|^(?:bash-\$|[^\s@]+@\S+[:#$]|\(Open file|\(Current directory|\(no output\)|(?:Command|Directory|Signal"
    r"|Background PIDs|Process Group PGID): |(?:Output|Error): \((?:none|empty)\))"
)


_COMMIT = re.compile(r"^\[[\w/.-]+ (?:\(root-commit\) )?([0-9a-f]{7,12})\] ", re.MULTILINE)
_SHOWN = re.compile(r"^commit ([0-9a-f]{7})[0-9a-f]{33}$", re.MULTILINE)
"""A commit as `git show` prints it. It counts as just made when the same command ran `git commit`."""
_RAN = re.compile(
    r"^=* ?(\d+ passed)|^(Ran \d+ tests?)\b|^[^\S\n]*Tests:?\s+(\d+ .{1,60})$"
    r"|^test result: \w+\. (\d+ passed)",
    re.MULTILINE,
)
"""The last summary line of pytest, unittest, jest, vitest and cargo test: how many tests ran."""


def _commit(text: str, command: str) -> str:
    """Returns the short hash of the commit that a command made, "" if it made none. Hooks may print around it."""
    commits = _COMMIT.findall(edges(text))
    if not commits and "git commit" in command:
        commits = _SHOWN.findall(text[:4_000])[:1]
    return str(commits[-1]) if commits else ""


def _tests(text: str) -> str:
    """Returns the test count that a successful run printed, "" if it printed none."""
    end = text[-4_000:]
    counts = _RAN.findall(end) if any(word in end for word in ("passed", "failed", "Ran ", "Tests")) else []
    return flat(next(group for group in counts[-1] if group)).rstrip(", ") if counts else ""


class Result(Struct, frozen=True):
    """How a tool call ended: `ok`, a short `note` for the command fact, and the error facts.

    `cause` is the error line of a failed command, as `format_cause` gives it; "" if there is none.
    """

    ok: bool
    note: str
    errors: tuple[Fact, ...] = ()
    cause: str = ""


CAUSE = 120
"""Longest error line, in characters, shown beside its command."""


def cause_of(line: str) -> str:
    """Returns an error line as shown beside its command. Secrets are removed before the line is cut."""
    return clip(flat(redact(line)), CAUSE)


def exit_code(text: str) -> int | None:
    """Returns the exit code stated at the beginning or the end of a tool's output, None if there is none."""
    ends = text[:300] if len(text) <= 300 else text[:200] + "\n" + text[-400:]
    if "xit" not in ends:
        return None
    matches = _EXIT.findall(ends)
    return int(matches[-1][0] or matches[-1][1]) if matches else None


def judge(doing: Doing, text: str, *, flagged: bool, at: int) -> Result:
    """Judges a tool's output. `is_error` says that the message format itself marked the result as an error."""
    flagged = flagged or text.startswith(_FLAG)
    text = text.removeprefix(_FLAG)
    head = text[:200].lower()
    if any(mark in head for mark in _REFUSED):
        return Result(ok=False, note="stopped by the user")
    if text.strip() == NO_RESULT:
        return Result(ok=False, note="no result")
    code = exit_code(text) if doing.verb in {"shell", "other"} else None
    is_shell = doing.verb == "shell"
    is_message = doing.verb not in {"read", "view"} or "\n" not in text.strip()  # a file may start like an error
    has_error_start = is_message and bool(_STARTS.match(text)) and not (is_shell and code == 0)
    has_error_start = has_error_start or (doing.verb in _CHANGES and bool(_UNDONE.match(text)))
    failed = flagged or code not in {None, 0} or (has_error_start and len(text) < 4_000)
    note = "ok" if not failed else f"exit {code}" if code else "failed"
    if is_shell and only_looks(doing.source) and all(effect.verb == "read" for effect in doing.effects):
        return Result(ok=not failed, note=note)
    lines = error_lines(text) if is_shell or failed else []
    if failed and not lines:
        lines = _telling_line(text, first=not is_shell)
    commit = _commit(text, doing.source) if is_shell and not failed else ""
    if not failed and lines and not commit:
        note = _NAMES_ERRORS
    detail = commit or (_tests(text) if is_shell and note == "ok" else "")
    note = f"{note}: {detail}" if detail else note
    cause = (
        cause_of(lines[-1] if "Traceback" in text else lines[0]) if lines and is_shell and not went_well(note) else ""
    )
    if failed and not lines:
        lines = [clip(flat(doing.label), 200)]
    is_settled = doing.verb in {"read", "todo"} or bool(_NO_CHANGE.search(head)) or bool(_SEARCHES.match(doing.source))
    errors = [
        Fact(kind="error", text=line, key=key_of(line), at=at, live=not is_settled, note=doing.source) for line in lines
    ]
    return Result(ok=went_well(note), note=note, errors=tuple(errors), cause=cause)


def error_lines(text: str, *, strict: bool = False) -> list[str]:
    """Returns the lines that name an error: at most six, shortened, without duplicates, in order.

    `strict` takes only lines with the form of an error: an exception, a compiler's line, the name of a failing test.
    """
    return list(_error_lines(text, strict=strict))


@remembered
def _error_lines(text: str, *, strict: bool) -> tuple[str, ...]:
    text = edges(text)
    if not _HINT.search(text):
        return ()
    ranks = _RANKS[:3] if strict else _RANKS
    found: dict[str, tuple[int, str]] = {}
    for raw in plain(text).split("\n"):
        if len(raw) > 2_000 or not _HINT.search(raw):
            continue
        line = flat(raw)
        rank = next((number for number, shape in ranks if shape.search(line)), None)
        if rank is not None and not _NOISE.search(line):
            found[key_of(line)] = (rank, clip(line, 300))
    return tuple(_most_telling(list(found.values())))


def _most_telling(lines: list[tuple[int, str]]) -> list[str]:
    """Returns the best ranked lines in their order. Totals are kept only if no line names a place or a cause."""
    best = min((rank for rank, _ in lines), default=0)
    candidates = [(rank, index) for index, (rank, _) in enumerate(lines) if rank <= 3 or best > 3]
    chosen = sorted(index for _, index in sorted(candidates)[:MOST_LINES])
    return [lines[index][1] for index in chosen]


def _telling_line(text: str, *, first: bool) -> list[str]:
    """Returns one line for a failure that no pattern knows: the first, or the last of a program's long output."""
    lines = [
        _TAG.sub("", flat(line)) for line in plain(head_of(text, 4_000) if first else tail_of(text, 4_000)).split("\n")
    ]
    lines = [line for line in lines if len(line) > 3 and not _EXIT.search(line) and not _PROMPT.match(line)]
    if not lines:
        return []
    error_line = next((line for line in lines if "error" in line.lower()), "")
    chosen = error_line or (lines[0] if first or len(lines) <= 4 else lines[-1])
    return [clip(chosen, 300)] if any(c.isalpha() for c in chosen) else []


_UNENDED = re.compile(r"stopped by the user|no result|exit (?:124|130|137|143)\b")
_COULD_NOT = re.compile(r"^(?:rm|mv|cp|ln|touch|tee|sed|unlink): ")


def ended(note: str) -> bool:
    """Tells whether a command ended by itself: nobody stopped it, and it did not time out."""
    return not _UNENDED.match(note)


def refused(errors: Sequence[Fact], effect: Effect) -> bool:
    """Tells whether an error line says that the program could not do this to the file. `cp` names the file it reads."""
    names = [path.rpartition("/")[2] for path in (effect.path, effect.target) if path]
    messages = [fact.text for fact in errors if _COULD_NOT.match(fact.text)]
    return any(line.startswith("cp: ") for line in messages if effect.verb == "write") or any(
        name in line for line in messages for name in names
    )


def went_well(note: str) -> bool:
    """Tells whether a command's note reports success."""
    return note == "ok" or note.startswith("ok: ")


def took_effect(note: str) -> bool:
    """Tells whether a call changed files as asked: it succeeded, or its output merely names errors."""
    return went_well(note) or note == _NAMES_ERRORS
