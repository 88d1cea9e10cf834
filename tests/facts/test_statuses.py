"""How a call ended, from the words of its result: ok, failed, or unknown; and what proves that an error is over."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.tool_calls import interpret_call
from tenfold.compaction.facts.tool_results import has_failed, is_success, judge_result
from tenfold.core.record.fact import ChangedFile
from tenfold.core.record.message import Message, ToolCall
from tests.summarize.making import get_facts, make_answer, make_call, make_result, make_run, make_user


def judge(call: Message, text: str, *, error: bool = False) -> str:
    (part,) = [part for part in call.parts if isinstance(part, ToolCall)]
    return judge_result(interpret_call(part, "/w/open.py"), text, is_error=error, position=1).note


EDIT = make_call("edit", path="/w/a.py", old_string="a", new_string="b")


@pytest.mark.parametrize(
    "text",
    [
        "Replaced 0 occurrences in /w/a.py",
        "/w/a.py: 0 occurrences replaced",
        "No replacement was performed, old_str `x` did not appear verbatim in /w/a.py.",
        "ERROR:\nNo replacement was performed. Multiple occurrences of old_str in lines [3, 9].",
        "String to replace not found in file.\nString: a",
        "<tool_use_error>Found 2 matches of the string to replace, but replace_all is false.</tool_use_error>",
        "Error: /w/a.py: the text to replace occurs 0 times:\nx = 1\nNothing was changed.",
        "Could not find the exact text in /w/a.py. The old text must match exactly.",
        "The old text was not found in /w/a.py",
        "The search text does not match anything in /w/a.py",
        "The search text did not match.",
        "Your proposed edit has introduced new syntax error(s).\nERRORS:\n- E999 IndentationError",
        "The file was not written: the disk is full",
        "error: patch failed: a.py:3\nerror: a.py: patch does not apply",
        "Hunk #1 FAILED at 10.",
        "open /w/a.py: no such file or directory",
        "EACCES: permission denied, open '/w/a.py'",
        "old_string is not unique in /w/a.py",
        '{"success": false, "path": "/w/a.py"}',
    ],
)
def test_a_change_that_did_not_happen(text: str) -> None:
    assert has_failed(judge(EDIT, text))
    facts = get_facts(EDIT, make_result(text))
    assert [fact.kind for fact in facts if fact.kind.startswith("file")] == []
    assert [fact.kind for fact in facts if fact.kind == "error"] != []


@pytest.mark.parametrize(
    "text",
    [
        "The file /w/a.py has been updated.",
        "Successfully replaced text in /w/a.py. Changed 3 characters to 4 characters.",
        "Replaced 1 occurrence in /w/a.py at line 3. It now reads:\n   3\traise KeyError('not found')",
        "The file /w/a.py has been edited. Here's the result of running `cat -n`:\n   12\t    # does not match\n",
        "[File: /w/a.py (9 lines total)]\n1:print('failed to write')\nFile updated. Please review the changes.",
        '  File "/root/lint.py", line 1\n    ^\nSyntaxError: no annotations\n[File: /w/a.py]\n1:x\nFile updated.',
        "--- a/w/a.py\n+++ b/w/a.py\n@@ -1 +1 @@\n-not found\n+no match",
        "Done!",
        '{\n  "success": true\n}',
        "Applied edit to w/errors.py, no warnings",
    ],
)
def test_a_change_that_happened(text: str) -> None:
    assert judge(EDIT, text) == "ok"


@pytest.mark.parametrize("text", ["", "(no output)", "Thank you.", "{}"])
def test_what_confirms_nothing_is_unknown(text: str) -> None:
    assert judge(EDIT, text) == "unknown"
    (file,) = get_facts(EDIT, make_result(text), kind="file_modified")
    assert isinstance(file, ChangedFile)
    assert file.is_unconfirmed


@pytest.mark.parametrize(
    ("command", "output", "note"),
    [
        ("npm test 2>&1 | head -3", "> test\n> runner\nrunning 40 files\n", "unknown"),
        ("npm run check 2>&1 | head -40", "> check\nChecked 9 files\n", "ok"),
        ("npm run check 2>&1 | tail -3", "> check\nChecked 9 files\n", "ok"),
        ("npm run check | grep -E 'error|warning'", "", "ok"),
        ("make all | grep main.c", "", "unknown"),
        ("make all || true", "cc -c main.c", "unknown"),
        ("./deploy.sh; echo done", "copying\n", "unknown"),
        ("pytest -q", "collected 9 items\n", "unknown"),
        ("pytest -q", "9 passed in 0.1s", "ok: 9 passed"),
        ("pytest -q | tail -3", "FAILED a.py::test_x - assert 1\n1 failed, 8 passed in 0.1s", "failed"),
        ("python -m unittest\nexit 0", "Ran 3 tests\nFAILED (failures=1)\nExit Code: 0", "failed"),
        ("./serve &", "Command running in background with ID: b1", "unknown"),
        ("cp a b", "", "ok"),
        ("tsc --noEmit", "", "ok"),
        ("ls | head -3", "a\nb\nc", "ok"),
        ("cat a.py", "cat: a.py: No such file or directory", "failed"),
        ("open src/a.py", "File src/a.py not found\n(Open file: n/a)\n(Current directory: /)\nbash-$", "failed"),
        ("grep -rn needle src", "(no output)\n\nCommand exited with code 1", "ok: nothing found"),
        ("find . -name x.py", "", "ok: nothing found"),
        ("grep -n x missing.py", "grep: missing.py: No such file or directory\nexit code: 2", "exit 2"),
        ("cat log.txt", "line one\nline two\nconnection not found\n", "ok"),
        ("cd /w && make && ./run", "cc main.c\n./run: Permission denied\nexit code 126", "exit 126"),
        ("npm run build", "npm error code ELIFECYCLE\nnpm error command failed", "failed"),
    ],
)
def test_commands(command: str, output: str, note: str) -> None:
    assert judge(make_call("bash", command=command), output) == note


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        ("The user doesn't want to proceed with this tool use. The tool use was rejected.", True),
        ("<tool_use_error>The user rejected the edit</tool_use_error>", True),
        ("[Request interrupted by user for tool use]", True),
        ("Tool call cancelled by user", True),
        ("\tconst text = reason === 'aborted' ? 'Operation aborted' : 'Error';\n" * 40, False),
    ],
)
def test_what_the_user_stopped(text: str, stopped: bool) -> None:  # noqa: FBT001
    assert (judge(make_call("read", path="/w/a.ts"), text) == "stopped by the user") == stopped


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"error": "item 7 cannot be cancelled"}', "failed"),
        ('{"status": "failed", "id": 7}', "failed"),
        ('{"success": false}', "failed"),
        ('{"error": null, "status": "open"}', "ok"),
        ('{"id": 7, "errors": []}', "ok"),
        ("Error: user not found", "failed"),
        ("No such order", "failed"),
        ("", "unknown"),
    ],
)
def test_the_results_of_other_tools(text: str, status: str) -> None:
    note = judge(make_call("cancel_item", id="7"), text)
    assert {"ok": is_success(note), "failed": has_failed(note), "unknown": note == "unknown"}[status]


def get_errors(*messages: Message) -> list[bool]:
    """Whether each error is open."""
    return [fact.live for fact in get_facts(*messages, kind="error")]


FAILED_EDIT = [make_call("edit", path="/w/a.py"), make_result("String to replace not found in file.")]


@pytest.mark.parametrize(
    "later",
    [
        make_run("ls"),
        make_run("pytest -q", "3 passed"),
        [make_call("edit", path="/w/b.py"), make_result("Edited")],
        [make_call("read", path="/w/a.py"), make_result("x = 1\ny = 2")],
        [make_call("edit", path="/w/a.py"), make_result("")],
    ],
)
def test_a_failed_edit_is_not_resolved_by_anything_else(later: list[Message]) -> None:
    assert get_errors(*FAILED_EDIT, *later) == [True]


def test_a_failed_edit_is_resolved_by_a_change_of_the_same_file() -> None:
    edits = [make_call("edit", path="/w/a.py"), make_result("Edited")]
    assert get_errors(*FAILED_EDIT, *edits) == [False]
    assert get_errors(*FAILED_EDIT, *make_run("sed -i s/a/b/ /w/a.py", "")) == [False]


def test_how_the_error_of_a_check_ends() -> None:
    bad = make_run("npm run check", "a.ts(1,1): error TS1: no\nCommand exited with code 1")
    worse = make_run("npm run check", "b.ts(1,1): error TS2: no\nCommand exited with code 1")
    hidden = make_run("npm run check | grep b.ts", "")
    assert get_errors(*bad, *worse) == [False, True]
    assert get_errors(*bad, *hidden) == [True], "an output that tells nothing proves nothing"
    assert get_errors(*bad, *make_run("npm run check", "fine")) == [False]


def test_an_error_that_only_grew_old_is_open_no_more() -> None:
    failed = make_run("./once", "fatal: no\nexit code 1")
    later = [m for n in range(4) for m in (make_user(f"now part {n}, please"), make_answer("ok"))]
    assert get_errors(*failed, *later) == [False]
