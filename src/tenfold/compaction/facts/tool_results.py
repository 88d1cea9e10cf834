"""Judges tool results: whether a call succeeded, and which lines of its output name an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum, auto
from itertools import islice

from msgspec import Struct

from tenfold.compaction.facts.shell import FileEffect, can_hide_failure, is_read_only, is_search, is_test_run
from tenfold.compaction.facts.tool_calls import ToolAction, Verb, find_command
from tenfold.core.record.fact import Failure
from tenfold.core.text.excerpts import MAX_SEARCHED_CHARS, Keep, excerpt, flatten, normalize_key, strip_escapes
from tenfold.core.text.json_text import decode_json
from tenfold.core.text.memoize import memoize
from tenfold.core.view.units import NO_RESULT
from tenfold.core.wire.marks import ERROR_FLAG

UNKNOWN = "unknown"
"""The note of a call whose output does not tell how it ended."""
MAX_ERROR_LINES = 6
"""Most error lines kept of one tool result."""
_ERRORS_IN_OUTPUT = "errors in output"

_EXIT_CODE = re.compile(
    r"exit(?:ed)?(?:[ _]with)?(?:[ _](?:code|status))\"?[:=\s]+(-?\d{1,5})\b|\bexit[=:] ?(-?\d{1,5})\s*\Z",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"(?:<tool_use_error>|error:)?\s{0,20}(?:the user (?:doesn't|does not|did not) (?:want|allow|approve)"
    r"|\[?request interrupted"
    r"|(?:command|operation|tool use|tool call) (?:was )?(?:aborted|interrupted|rejected|cancell?ed|declined)"
    r"|(?:(?:tool (?:use|call)|command|edit|call) )?(?:aborted|cancell?ed|rejected|declined|denied"
    r"|interrupted) by (?:the )?user"
    r"|(?:the )?user (?:has )?(?:rejected|declined|denied|cancell?ed|aborted|refused))",
    re.IGNORECASE,
)
"""Matches how a result begins, without its blank lines, that says that the user stopped the call."""
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
_UNCHANGED = re.compile(
    r"\b(?:0|zero|no|without) (?:occurrences?|replacements?|match(?:es)?|changes?|edits?|hunks?|modifications?)\b"
    r"(?! (?:remain|left|needed))|\b0 (?:times|lines? (?:changed|replaced))\b|\bnothing (?:was |to )?(?:changed?"
    r"|replaced?|written)"
    r"|\b(?:was|were|is|are|has|have|did|does|do|could|will) ?n(?:o|')t (?:be |been |actually )?"
    r"(?:changed?|modified|modify|writ(?:ten|e)|appl(?:ied|y)|found|edited|updated?|saved?|replaced?|match|unique"
    r"|exist)\b"
    r"|\b(?:not|un)[- ]?(?:applied|written|saved|unique)\b|\bnot found in\b|\bfailed to (?:apply|write|edit|find"
    r"|match|save)"
    r"|\bhunk #?\d+ failed|\bpatch (?:failed|does not apply)|\bno such file|\bread-only file"
    r"|\bmultiple (?:matches|occurrences)\b"
    r"|\bintroduced (?:new )?syntax error|\bNOT (?:been )?(?:written|applied|changed|saved)\b",
    re.IGNORECASE,
)
"""Matches a statement that a change did not happen."""
_CHANGED = re.compile(
    r"\b(?:success(?:ful|fully)?|updated|edited|written|wrote|created|replaced|modified|applied|saved|done"
    r"|inserted|appended"
    r"|deleted|removed|renamed|moved|overw(?:rote|ritten)|changed|undone|ok)\b",
    re.IGNORECASE,
)
"""Matches a statement that a change happened, unless `_UNCHANGED` matches it too."""
_QUOTED_LINE = re.compile(r"^(?:\s*\d+(?:[:\t|\u2192]|\s{2}| *\|)|\s{2,}[^\s\"]|\t|[+-](?![+-]{2})|@@|>)")
"""Matches a line of a file that a tool quotes: numbered, indented or of a diff."""
_COMPLAINT = re.compile(
    r"^(?:error|fatal|failed|failure|usage)\b[^\n]{0,20}:|^(?:could not|cannot|can't|unable to|invalid)\b"
    r"|: (?:cannot (?:access|open|stat|read)\b|command not found|No such file or directory|Permission denied"
    r"|Is a directory"
    r"|Not a directory)|^.{0,160}\b(?:not found|does not exist|no such file)\W*$|\bpermission (?:was )?denied\b"
    r"|^No (?:such|file)\b|\btimed out\b",
    re.IGNORECASE,
)
"""Matches a line by which a program or tool says that it could not do its work."""
_FAILED_RUN = re.compile(
    r"^=* ?[1-9]\d* failed\b|^=+ .*\b[1-9]\d* (?:failed|errors?)\b.* =+$|^FAILED \("
    r"|^[^\S\n]*Tests?:?\s+[1-9]\d* failed"
    r"|^test result: FAILED|^BUILD FAILED|^npm (?:ERR!|error) |^Found [1-9]\d* errors?\b|^\d+ problems? \([1-9]",
    re.MULTILINE,
)
"""Matches the last lines of a check or test run that failed, whatever its exit code."""
_VERDICT = re.compile(
    r"\b(?:pass(?:ed|es)?|succe(?:ss|ssful|ssfully|eded)|completed?|finished|built|compiled|installed|clean"
    r"|up[- ]to[- ]date)\b"
    r"|\bOK\b|\b(?:0|no|zero) (?:errors?|issues?|problems?|failures?|failed|warnings)\b|\bdone\b|\u2713|\u2714|\u2705",
    re.IGNORECASE,
)
"""Matches words by which a program says that it succeeded."""
_MAX_COMPLAINT_CHARS = 1_000
"""Longest output, in characters, that may be nothing but a complaint."""
_STILL_RUNNING = re.compile(
    r"\b(?:running|started|moved) (?:in|to) (?:the )?background\b|\bstill running\b", re.IGNORECASE
)
_EXCEPTION = re.compile(
    r"^(?:E\s+|Error: )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?::\s?.*)?$|^(?:Uncaught"
    r"|Unhandled)\s\S"
    r"|^\s*(?:[\w./-]+:\s*)?(?:fatal )?error(?:\[\w+\])?:\s|^\s*\w*Error: |^(?:fatal|panic"
    r"|thread '.*' panicked)\b.*:\s"
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
    """How a tool call ended: a short `note` that begins with its status, and the error facts.

    A note is `ok`, `ok: 12 passed`, `exit 2`, `failed`, `errors in output`, `stopped by the user`, `no result` or
    `unknown`.
    """

    note: str
    errors: tuple[Failure, ...] = ()


def find_exit_code(text: str) -> int | None:
    """Returns the exit code stated at the beginning or the end of a tool's output, None if there is none."""
    ends = text[:300] if len(text) <= 300 else text[:200] + "\n" + text[-400:]
    if "xit" not in ends:
        return None
    matches = _EXIT_CODE.findall(ends)
    return int(matches[-1][0] or matches[-1][1]) if matches else None


def judge_result(action: ToolAction, text: str, *, is_error: bool, position: int) -> ToolOutcome:
    """Judges a tool's output by its own words; what they do not tell is `unknown`.

    `is_error` says that the message format itself marked the result as an error.
    """
    is_error = is_error or text.startswith(ERROR_FLAG)
    text = text.removeprefix(ERROR_FLAG)
    if _REFUSAL.match(text.lstrip()):
        return ToolOutcome("stopped by the user")
    if text.strip() == NO_RESULT:
        return ToolOutcome("no result")
    if action.verb == "shell":
        return _judge_command(action, text, is_error=is_error, position=position)
    code = find_exit_code(text) if action.verb == "other" else None
    failed = is_error or code not in {None, 0} or _has_failure_words(action.verb, text)
    if not failed:
        return ToolOutcome("ok" if _has_success_words(action, text) else UNKNOWN)
    note = f"exit {code}" if code else "failed"
    if action.verb in {"read", "todo"} or _SEARCH_TOOL.match(action.source):  # nothing is left to be mended
        return ToolOutcome(note)
    lines = find_error_lines(text) or _find_failure_line(text, first=True)
    is_settled = bool(_NO_CHANGE.search(text[:200].lower()))
    return ToolOutcome(note, _build_errors(action, lines, position, is_live=not is_settled))


def _judge_command(action: ToolAction, text: str, *, is_error: bool, position: int) -> ToolOutcome:
    code = find_exit_code(text)
    failed = is_error or code not in {None, 0}
    failed = failed or (code is None and len(text) < 4_000 and bool(_FAILURE_START.match(text)))
    if is_read_only(action.source) and all(effect.verb == "read" for effect in action.effects):
        return _judge_look(action, text, code, failed=failed)
    failed = failed or bool(_FAILED_RUN.search(text[-4_000:]))
    lines = find_error_lines(text)
    if failed and not lines:
        lines = _find_failure_line(text, first=False)
    note = "ok" if not failed else f"exit {code}" if code else "failed"
    if not failed:
        commit = _find_commit(text, action.source)
        detail = commit or ("" if lines else _find_test_count(text))
        if lines and not commit:
            note = _ERRORS_IN_OUTPUT
        elif detail:
            note = f"ok: {detail}"
        elif _is_open_question(action, text, code):
            note = UNKNOWN
    return ToolOutcome(note, _build_errors(action, lines, position, is_live=True) if lines or failed else ())


def _judge_look(action: ToolAction, text: str, code: int | None, *, failed: bool) -> ToolOutcome:
    """Judges a command that only reads. It failed if all that it printed is a complaint."""
    body = list_body_lines(text) if len(text) < _MAX_COMPLAINT_CHARS else [text[:1], "", ""]
    if not body and code in {None, 0, 1} and is_search(action.source):
        return ToolOutcome("ok: nothing found")
    has_complained = len(body) <= 2 and any(_COMPLAINT.search(line) for line in body)
    if not failed and not has_complained:
        return ToolOutcome("ok")
    return ToolOutcome(f"exit {code}" if code else "failed")


def _build_errors(action: ToolAction, lines: Sequence[str], position: int, *, is_live: bool) -> tuple[Failure, ...]:
    lines = lines or (excerpt(flatten(action.label), 200),)
    return tuple(Failure(line, position, is_live, source=action.source) for line in lines)


def _is_open_question(action: ToolAction, text: str, code: int | None) -> bool:
    """Tells whether a command that printed no error may have failed all the same.

    That is a program still at work, a test run without a verdict, or a program behind a filter that ends well in any
    case and may have left out what was printed last.
    """
    if _STILL_RUNNING.search(text[:300]):
        return True
    if _VERDICT.search(text):
        return False
    command = find_command(action.arguments) or action.source
    return (code is None and is_test_run(action.source)) or can_hide_failure(command, text.strip().count("\n") + 1)


def list_body_lines(text: str) -> list[str]:
    """Returns the lines that a program printed, without what the harness put around them."""
    lines = (flatten(line) for line in strip_escapes(text).split("\n"))
    lines = (line.removeprefix("Output: ") for line in lines)
    return [line for line in lines if line and not _EXIT_CODE.search(line) and not _SHELL_PROMPT.match(line)]


def _list_statements(text: str) -> list[str]:
    """Returns what a tool says itself: its lines without the content of files that it quotes."""
    lines = strip_escapes(excerpt(text, 8_000, Keep.EDGES)).split("\n")
    unread = iter(lines)
    first = list(islice(filter(_is_statement, unread), 4))
    last = list(islice(filter(_is_statement, reversed(list(unread))), 3))
    return [line.strip() for line in (*first, *reversed(last))]


def _is_statement(line: str) -> bool:
    return bool(line.strip()) and not _QUOTED_LINE.match(line)


def _has_failure_words(verb: Verb, text: str) -> bool:
    """Tells whether the words of a tool other than a shell say that it did not do what was asked."""
    if verb == "read" and "\n" in text.strip():  # a file may begin like an error
        return False
    statements = _list_statements(text)
    if verb == "read" and len(statements) > 2:  # lines that end in a carriage return only
        return False
    if _has_error_member(text) or (_FAILURE_START.match(text) and (len(text) < 4_000 or ":" in text[:20])):
        return True
    if verb in _CHANGE_VERBS:
        doubt = next((line for line in statements if _UNCHANGED.search(line) or _CHANGE_FAILURE.match(line)), "")
        return bool(doubt) and (doubt == statements[0] or not any(_CHANGED.search(line) for line in statements))
    return len(statements) == 1 and bool(_COMPLAINT.search(statements[0]))


def _has_success_words(action: ToolAction, text: str) -> bool:
    """Tells whether the words of a tool other than a shell show that it did what was asked."""
    if action.verb not in _CHANGE_VERBS:
        return bool(text.strip())
    names = [path.rpartition("/")[2] for effect in action.effects for path in (effect.path, effect.target) if path]
    statements = _list_statements(text) or [flatten(text[:400])]
    return any(_CHANGED.search(line) or any(name in line for name in names) for line in statements)


def _has_error_member(text: str) -> bool:
    """Tells whether a result is a JSON object that reports an error."""
    if not text.lstrip().startswith("{") or len(text) > MAX_SEARCHED_CHARS:
        return False
    value = decode_json(text)
    if not isinstance(value, dict):
        return False
    return (
        bool(value.get("error") or value.get("isError") or value.get("is_error"))
        or any(value.get(name) is False for name in ("success", "ok"))
        or str(value.get("status")).lower() in {"error", "failed", "failure", "denied", "rejected"}
    )


@memoize
def find_error_lines(text: str) -> tuple[str, ...]:
    """Returns the lines that name an error: at most six, shortened, without duplicates, in order."""
    text = excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES)
    if not _HINT.search(text):
        return ()
    found: dict[str, tuple[ErrorClue, str]] = {}
    for raw in strip_escapes(text).split("\n"):
        if len(raw) > 2_000 or not _HINT.search(raw):
            continue
        line = flatten(raw)
        clue = next((clue for clue, shape in _ERROR_PATTERNS if shape.search(line)), None)
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


_UNFINISHED_NOTE = re.compile(r"stopped by the user|no result|unknown|exit (?:124|130|137|143)\b")
_FILE_TOOL_ERROR = re.compile(r"^(?:rm|mv|cp|ln|touch|tee|sed|unlink): ")


def has_ended(note: str) -> bool:
    """Tells whether a command is known to have ended by itself: nobody stopped it, and it did not time out."""
    return not _UNFINISHED_NOTE.match(note)


def is_refused(errors: Sequence[Failure], effect: FileEffect) -> bool:
    """Tells whether an error line says that the program could not do this to the file. `cp` names the file it reads."""
    names = [path.rpartition("/")[2] for path in (effect.path, effect.target) if path]
    messages = [fact.text for fact in errors if _FILE_TOOL_ERROR.match(fact.text)]
    return any(line.startswith("cp: ") for line in messages if effect.verb == "write") or any(
        name in line for line in messages for name in names
    )


def is_success(note: str) -> bool:
    """Tells whether a command's note reports success."""
    return note == "ok" or note.startswith("ok: ")


def has_failed(note: str) -> bool:
    """Tells whether a command's note reports a failure, and not just that nothing is known."""
    return bool(note) and not is_success(note) and not note.startswith(UNKNOWN)


def has_taken_effect(note: str) -> bool:
    """Tells whether a call may have changed files as asked: no failure is known, or its output merely names errors."""
    return not has_failed(note) or note == _ERRORS_IN_OUTPUT
