"""Judges tool results: whether a call succeeded, and which lines of its output name an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum, auto

from msgspec import Struct

from tenfold.facts.shell import FileEffect, is_read_only
from tenfold.facts.tool_calls import ToolAction
from tenfold.record.block import Fact
from tenfold.text.excerpts import MAX_SEARCHED_CHARS, Keep, excerpt, flatten, normalize_key, strip_escapes
from tenfold.text.memoize import memoize
from tenfold.text.redaction import redact
from tenfold.view.units import NO_RESULT
from tenfold.wire.marks import ERROR_FLAG

MAX_ERROR_LINES = 6
"""Most error lines kept of one tool result."""
_ERRORS_IN_OUTPUT = "errors in output"

_EXIT_CODE = re.compile(
    r"exit(?:ed)?(?:[ _]with)?(?:[ _](?:code|status))\"?[:=\s]+(-?\d{1,5})\b|\bexit[=:] ?(-?\d{1,5})\s*\Z",
    re.IGNORECASE,
)
_REFUSAL_MARKS = (
    "the user doesn't want",
    "request interrupted",
    "command aborted",
    "operation aborted",
    "user rejected",
    "user declined",
    "cancelled by user",
    "canceled by user",
)
_FAILURE_START = re.compile(
    r"^\s*(?:<tool_use_error>|error\b|\[error|exception\b|failed\b|failure\b|could not find\b"
    r"|no replacement was performed|no changes made"
    r"|invalid\b|traceback|your proposed edit has introduced|string to replace not found|old_?str)",
    re.IGNORECASE,
)
_CHANGE_FAILURE = re.compile(
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
_LOCATED_ERROR = re.compile(
    r"^(?:\[[^\]]{1,40}\] \| )?/?(?:[\w@.-]+/)*[\w@.-]+\.\w{1,5}(?::\d+(?::\d+)?:?|\(\d+,\d+\):?)\s+(?:-\s+)?"
    r"(?:(?:fatal\s+)?error|lint/|[A-Z]{1,4}\d{2,5})\S*"
)
_NAMED_FAILURE = re.compile(
    r"^\s*(?:- [EF]\d{3} \w|(?:FAILED|ERROR)\s+[\w./\\-]+|(?:FAIL|ERROR):\s|--- FAIL:|not ok \d|FAIL\s+\S+|CONFLICT \("
    r"|! \[(?:remote )?rejected\]"
    r"|No test(?:s| files?)\b.{0,20}\bfound"
    r"|.{1,160}: (?:command not found|No such file or directory|[Pp]ermission denied))"
)
_MARKED_FAILURE = re.compile(r"^\s*[\u00d7\u2717\u2716\u274c\u2718\u276f]\s+\S")
_ERROR_TOTAL = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b(?!\s*[=:]\s*0)|^Found [1-9]\d* errors?"
    r"|^npm (?:ERR!|error)\s+(?:code|Missing|Could|404|notarget)"
)


class ErrorClue(IntEnum):
    """What a line tells about an error. If there are many lines, those that tell most are kept."""

    PLACE = auto()  # the file and line
    NAME = auto()  # an exception, or what failed
    MARK = auto()  # a sign such as a cross
    TOTAL = auto()  # a number of errors: of use only if no line says more


_ERROR_PATTERNS = (
    (ErrorClue.PLACE, _LOCATED_ERROR),
    (ErrorClue.NAME, _EXCEPTION),
    (ErrorClue.NAME, _NAMED_FAILURE),
    (ErrorClue.MARK, _MARKED_FAILURE),
    (ErrorClue.TOTAL, _ERROR_TOTAL),
)
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
_CHANGE_VERBS = frozenset({"write", "modify", "delete", "rename"})
_SEARCH_TOOL = re.compile(r"^(?:\w+__)?(?:grep|glob|search\w*|find\w*|list\w*|ls|web\w*|fetch\w*)$", re.IGNORECASE)
_ERROR_TAG = re.compile(r"</?tool_use_error>")
_SHELL_PROMPT = re.compile(
    r"^\w+:$|^(?:bash-\$|[^\s@]+@\S+[:#$]|\(Open file|\(Current directory|\(no output\)|(?:Command|Directory|Signal"
    r"|Background PIDs|Process Group PGID): |(?:Output|Error): \((?:none|empty)\))"
)


_COMMIT_LINE = re.compile(r"^\[[\w/.-]+ (?:\(root-commit\) )?([0-9a-f]{7,12})\] ", re.MULTILINE)
_SHOWN_COMMIT = re.compile(r"^commit ([0-9a-f]{7})[0-9a-f]{33}$", re.MULTILINE)
"""A commit as `git show` prints it. It counts as just made when the same command ran `git commit`."""
_TEST_COUNT = re.compile(
    r"^=* ?(\d+ passed)|^(Ran \d+ tests?)\b|^[^\S\n]*Tests:?\s+(\d+ .{1,60})$"
    r"|^test result: \w+\. (\d+ passed)",
    re.MULTILINE,
)
"""The last summary line of pytest, unittest, jest, vitest and cargo test: how many tests ran."""


def _find_commit(text: str, command: str) -> str:
    """Returns the short hash of the commit that a command made, "" if it made none. Hooks may print around it."""
    commits = _COMMIT_LINE.findall(excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES))
    if not commits and "git commit" in command:
        commits = _SHOWN_COMMIT.findall(text[:4_000])[:1]
    return str(commits[-1]) if commits else ""


def _find_test_count(text: str) -> str:
    """Returns the test count that a successful run printed, "" if it printed none."""
    end = text[-4_000:]
    counts = _TEST_COUNT.findall(end) if any(word in end for word in ("passed", "failed", "Ran ", "Tests")) else []
    return flatten(next(group for group in counts[-1] if group)).rstrip(", ") if counts else ""


class ToolOutcome(Struct, frozen=True):
    """How a tool call ended: `ok`, a short `note` for the command fact, and the error facts.

    `cause` is the error line of a failed command, as `format_cause` gives it; "" if there is none.
    """

    ok: bool
    note: str
    errors: tuple[Fact, ...] = ()
    cause: str = ""


MAX_CAUSE_CHARS = 120
"""Longest error line, in characters, shown beside its command."""


def format_cause(line: str) -> str:
    """Returns an error line as shown beside its command. Secrets are removed before the line is cut."""
    return excerpt(flatten(redact(line)), MAX_CAUSE_CHARS)


def find_exit_code(text: str) -> int | None:
    """Returns the exit code stated at the beginning or the end of a tool's output, None if there is none."""
    ends = text[:300] if len(text) <= 300 else text[:200] + "\n" + text[-400:]
    if "xit" not in ends:
        return None
    matches = _EXIT_CODE.findall(ends)
    return int(matches[-1][0] or matches[-1][1]) if matches else None


def judge_result(action: ToolAction, text: str, *, is_error: bool, position: int) -> ToolOutcome:
    """Judges a tool's output. `is_error` says that the message format itself marked the result as an error."""
    is_error = is_error or text.startswith(ERROR_FLAG)
    text = text.removeprefix(ERROR_FLAG)
    head = text[:200].lower()
    if any(mark in head for mark in _REFUSAL_MARKS):
        return ToolOutcome(ok=False, note="stopped by the user")
    if text.strip() == NO_RESULT:
        return ToolOutcome(ok=False, note="no result")
    code = find_exit_code(text) if action.verb in {"shell", "other"} else None
    is_shell = action.verb == "shell"
    is_message = action.verb != "read" or "\n" not in text.strip()  # a file may start like an error
    has_error_start = is_message and bool(_FAILURE_START.match(text)) and not (is_shell and code == 0)
    has_error_start = has_error_start or (action.verb in _CHANGE_VERBS and bool(_CHANGE_FAILURE.match(text)))
    failed = is_error or code not in {None, 0} or (has_error_start and len(text) < 4_000)
    note = "ok" if not failed else f"exit {code}" if code else "failed"
    if is_shell and is_read_only(action.source) and all(effect.verb == "read" for effect in action.effects):
        return ToolOutcome(ok=not failed, note=note)
    lines = find_error_lines(text) if is_shell or failed else ()
    if failed and not lines:
        lines = _find_failure_line(text, first=not is_shell)
    commit = _find_commit(text, action.source) if is_shell and not failed else ""
    if not failed and lines and not commit:
        note = _ERRORS_IN_OUTPUT
    detail = commit or (_find_test_count(text) if is_shell and note == "ok" else "")
    note = f"{note}: {detail}" if detail else note
    has_cause = bool(lines) and is_shell and not is_success(note)
    cause = format_cause(lines[-1 if "Traceback" in text else 0]) if has_cause else ""
    if failed and not lines:
        lines = (excerpt(flatten(action.label), 200),)
    is_settled = (
        action.verb in {"read", "todo"} or bool(_NO_CHANGE.search(head)) or bool(_SEARCH_TOOL.match(action.source))
    )
    errors = (Fact("error", line, normalize_key(line), position, not is_settled, action.source) for line in lines)
    return ToolOutcome(ok=is_success(note), note=note, errors=tuple(errors), cause=cause)


@memoize
def find_error_lines(text: str, *, strict: bool = False) -> tuple[str, ...]:
    """Returns the lines that name an error: at most six, shortened, without duplicates, in order.

    `strict` takes only lines with the form of an error: an exception, a compiler's line, the name of a failing test.
    """
    text = excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES)
    if not _HINT.search(text):
        return ()
    patterns = [(clue, shape) for clue, shape in _ERROR_PATTERNS if clue <= ErrorClue.NAME or not strict]
    found: dict[str, tuple[ErrorClue, str]] = {}
    for raw in strip_escapes(text).split("\n"):
        if len(raw) > 2_000 or not _HINT.search(raw):
            continue
        line = flatten(raw)
        clue = next((clue for clue, shape in patterns if shape.search(line)), None)
        if clue is not None and not _NOISE.search(line):
            found[normalize_key(line)] = (clue, excerpt(line, 300))
    return _select_error_lines(list(found.values()))


def _select_error_lines(lines: list[tuple[ErrorClue, str]]) -> tuple[str, ...]:
    """Returns the lines that tell most, in their order."""
    has_only_totals = all(clue is ErrorClue.TOTAL for clue, _ in lines)
    candidates = [(clue, at) for at, (clue, _) in enumerate(lines) if has_only_totals or clue is not ErrorClue.TOTAL]
    return tuple(lines[at][1] for at in sorted(at for _, at in sorted(candidates)[:MAX_ERROR_LINES]))


def _find_failure_line(text: str, *, first: bool) -> tuple[str, ...]:
    """Returns one line for a failure that no pattern knows: the first, or the last of a program's long output."""
    lines = [
        _ERROR_TAG.sub("", flatten(line))
        for line in strip_escapes(excerpt(text, 4_000, Keep.HEAD if first else Keep.TAIL)).split("\n")
    ]
    lines = [line for line in lines if len(line) > 3 and not _EXIT_CODE.search(line) and not _SHELL_PROMPT.match(line)]
    if not lines:
        return ()
    error_line = next((line for line in lines if "error" in line.lower()), "")
    chosen = error_line or (lines[0] if first or len(lines) <= 4 else lines[-1])
    return (excerpt(chosen, 300),) if any(c.isalpha() for c in chosen) else ()


_INTERRUPTED_NOTE = re.compile(r"stopped by the user|no result|exit (?:124|130|137|143)\b")
_FILE_TOOL_ERROR = re.compile(r"^(?:rm|mv|cp|ln|touch|tee|sed|unlink): ")


def has_ended(note: str) -> bool:
    """Tells whether a command ended by itself: nobody stopped it, and it did not time out."""
    return not _INTERRUPTED_NOTE.match(note)


def is_refused(errors: Sequence[Fact], effect: FileEffect) -> bool:
    """Tells whether an error line says that the program could not do this to the file. `cp` names the file it reads."""
    names = [path.rpartition("/")[2] for path in (effect.path, effect.target) if path]
    messages = [fact.text for fact in errors if _FILE_TOOL_ERROR.match(fact.text)]
    return any(line.startswith("cp: ") for line in messages if effect.verb == "write") or any(
        name in line for line in messages for name in names
    )


def is_success(note: str) -> bool:
    """Tells whether a command's note reports success."""
    return note == "ok" or note.startswith("ok: ")


def has_taken_effect(note: str) -> bool:
    """Tells whether a call changed files as asked: it succeeded, or its output merely names errors."""
    return is_success(note) or note == _ERRORS_IN_OUTPUT
