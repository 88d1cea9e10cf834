"""Commands with their outcome, and errors: which lines, and when they are over."""

from __future__ import annotations

import pytest

from tenfold.core.record.fact import CommandRun
from tenfold.core.record.message import Message
from tenfold.core.view.units import NO_RESULT
from tests.summarize.making import get_facts, make_call, make_result, make_run


def find_open_errors(*messages: Message) -> list[str]:
    return [fact.text for fact in get_facts(*messages, kind="error") if fact.live]


TRACE = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\nValueError: bad literal\n'


@pytest.mark.parametrize(
    ("output", "error", "note"),
    [
        ("fine\n", False, "ok"),
        ("boom\n\nCommand exited with code 2", False, "exit 2"),
        ("[Command finished with exit code 1]", False, "exit 1"),
        ("Output: x\nExit Code: 0\nSignal: 0", False, "ok"),
        ("exit=3", False, "exit 3"),
        ("something", True, "failed"),
        (f"{'x' * 80}\n{TRACE}Command exited with code 1", False, "exit 1"),
        ("FAIL: test_a (m.T)\nFAIL: test_b (m.T)\nCommand exited with code 1", False, "exit 1"),
        ("a.ts(1,2): error TS1: No 'x'.", False, "errors in output"),
        ("Command aborted", True, "stopped by the user"),
        ("[main 1507f8b] Say hello\n 1 file changed", False, "ok: 1507f8b"),
        ("[main 1507f8b] Say hello\n" + "hook: fine\n" * 900, False, "ok: 1507f8b"),
        ("a.ts:1:2 lint/noUnused  FIXABLE\nhook: passed\n[main 1507f8b] Say hello", False, "ok: 1507f8b"),
        ("....\n===== 12 passed, 3 skipped in 0.11s =====", False, "ok: 12 passed"),
        ("Ran 4 tests in 0.004s\n\nOK", False, "ok: Ran 4 tests"),
        (NO_RESULT, True, "no result"),
        ("[tool error]\nNot allowed here.", False, "failed"),
    ],
)
def test_the_outcome_of_a_command(output: str, error: bool, note: str) -> None:  # noqa: FBT001
    (run,) = [fact for fact in get_facts(*make_run("make all", output, error=error)) if isinstance(fact, CommandRun)]
    assert (run.text, run.outcome) == ("make all", note)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (TRACE, "ValueError: bad literal"),
        (
            "collected 3\nFAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
        ),
        ("FAIL: test_x (m.T)\n----", "FAIL: test_x (m.T)"),
        ("ERROR: test_y (m.T)\n----", "ERROR: test_y (m.T)"),
        ("src/a.ts(3,4): error TS2305: no member", "src/a.ts(3,4): error TS2305: no member"),
        ("  /w/a.py:3:7 - error: no member\n1 error, 0 warnings", "/w/a.py:3:7 - error: no member"),
        (
            "[CI/test] | /w/a.py:3:7 - error: none\n[CI/test] | 1 error, 0 warnings",
            "[CI/test] | /w/a.py:3:7 - error: none",
        ),
        ("main.c:10:5: error: expected ';'", "main.c:10:5: error: expected ';'"),
        ("error[E0308]: mismatched types", "error[E0308]: mismatched types"),
        ("a.py:1:1: F401 unused import", "a.py:1:1: F401 unused import"),
        ("bash: foo: command not found", "bash: foo: command not found"),
        ("--- FAIL: TestX (0.00s)", "--- FAIL: TestX (0.00s)"),
        ("Your edit has a syntax error.\nERRORS:\n- E999 invalid syntax", "- E999 invalid syntax"),
        ("fatal: not a git repository: x", "fatal: not a git repository: x"),
    ],
)
def test_lines_that_name_an_error(output: str, line: str) -> None:
    assert line in find_open_errors(*make_run("make", output + "\nCommand exited with code 1"))


def test_a_line_that_is_printed_again_stands_where_it_stood_first() -> None:
    lines = [f"src/a{n}.ts(1,1): error TS1: no" for n in range(9)]
    assert find_open_errors(*make_run("npm run check", "\n".join([*lines, *lines[:2], "Exit code: 2"]))) == lines[:6]


def test_an_error_that_the_chat_format_could_not_flag_is_one() -> None:
    edit = make_call("edit", path="a.py", old="x", new="y")
    told = get_facts(edit, make_result("[tool error]\nThe old text is not there."), kind="error")
    assert [fact.text for fact in told] == ["The old text is not there."]


def test_what_was_never_answered_is_no_error() -> None:
    assert find_open_errors(*make_run("make all", NO_RESULT, error=True)) == []


def test_an_error_is_over_when_the_command_succeeds_later() -> None:
    bad = make_run("npm run check 2>&1 | tail", "x.ts(1,1): error TS1: no\nCommand exited with code 1")
    assert find_open_errors(*bad) == ["x.ts(1,1): error TS1: no"]
    assert find_open_errors(*bad, *make_run("cd /r && npm run check", "all good")) == []
    assert find_open_errors(*bad, *make_run("npm run build", "all good")) == ["x.ts(1,1): error TS1: no"]


def test_a_narrower_success_does_not_settle_but_a_broader_one_does() -> None:
    bad = make_run("pytest tests/test_a.py", "FAILED tests/test_a.py::test_b\nCommand exited with code 1")
    assert find_open_errors(*bad, *make_run("pytest tests/test_c.py", "1 passed")) == ["FAILED tests/test_a.py::test_b"]
    assert find_open_errors(*bad, *make_run("pytest -q", "9 passed")) == []


@pytest.mark.parametrize(
    ("failing", "other", "same"),
    [
        ("pytest -q tests/test_a.py", "pytest -q tests/test_b.py", "pytest -x tests/test_a.py"),
        ("pytest -x tests/test_a.py::test_one", "pytest -x tests/test_a.py::test_two", "pytest tests/test_a.py"),
        ("pytest -k parse", "pytest -k render", "pytest -q"),
        ("mypy --strict src/a.py", "mypy --strict src/b.py", "mypy --strict"),
        ("python -u train.py", "python -u plot.py", "python train.py"),
        ("cargo test -p alpha", "cargo test -p beta", "cargo test"),
        ("go test -run TestA ./a", "go test -run TestB ./b", "go test"),
        ("npm test -- a.test.ts", "npm test -- b.test.ts", "npm test"),
        ("npm --workspace web run lint", "npm --workspace api run lint", "npm --workspace web run lint"),
    ],
)
def test_what_passes_elsewhere_settles_nothing(failing: str, other: str, same: str) -> None:
    bad = make_run(failing, "E   ValueError: bad\nCommand exited with code 1")
    assert find_open_errors(*bad, *make_run(other, "3 passed")) == ["E ValueError: bad"]
    assert find_open_errors(*bad, *make_run(same, "3 passed")) == []


@pytest.mark.parametrize(
    "again",
    ["Command aborted by the user: operation aborted", "Command timed out after 120s\nexit code: 124", NO_RESULT],
)
def test_a_run_that_did_not_end_settles_nothing(again: str) -> None:
    bad = make_run("npm test", "FAIL src/a.test.ts\nexit code: 1")
    assert "FAIL src/a.test.ts" in find_open_errors(*bad, *make_run("npm test", again))


def test_running_the_same_again_leaves_only_the_new_errors() -> None:
    first = make_run("make", "a.c:1:1: error: one\nCommand exited with code 1")
    assert find_open_errors(*first, *make_run("make", "a.c:2:1: error: two\nCommand exited with code 1")) == [
        "a.c:2:1: error: two"
    ]


def test_a_failed_search_is_no_error() -> None:
    assert get_facts(*make_run("grep -rn needle src", "(no output)\n\nCommand exited with code 1"), kind="error") == []


def test_reading_a_file_about_errors_is_no_error() -> None:
    assert get_facts(make_call("read", path="/a.py"), make_result("raise ValueError: x\nError: y"), kind="error") == []


def test_a_file_of_which_one_line_tells_an_error_was_not_read() -> None:
    refused = [make_call("read", path="/a.py"), make_result("Error: EACCES: permission denied, open '/a.py'\n")]
    assert [(fact.kind, fact.outcome) for fact in get_facts(*refused) if isinstance(fact, CommandRun)] == [
        ("command", "failed")
    ]
    (log,) = get_facts(make_call("read", path="/a.log"), make_result("Error: one\nError: two\n"), kind="file_read")
    assert log.text == "/a.log"


def test_a_failed_edit_is_over_when_another_one_goes_through() -> None:
    bad = [make_call("edit", path="/a.py"), make_result("Could not find the exact text in /a.py")]
    assert find_open_errors(*bad) == ["Could not find the exact text in /a.py"]
    assert find_open_errors(*bad, make_call("edit", path="/a.py"), make_result("Edited")) == []


def test_a_tool_of_any_name_is_over_when_it_succeeds_later() -> None:
    bad = [make_call("return_items", order="#W1"), make_result("Error: order not found", error=True)]
    assert find_open_errors(*bad) == ["Error: order not found"]
    assert find_open_errors(*bad, make_call("return_items", order="#W2"), make_result('{"status": "done"}')) == []


def test_a_long_output_gives_few_bounded_lines() -> None:
    output = "\n".join(f"src/a{n}.ts({n},1): error TS2304: {'x' * 900}" for n in range(50))
    lines = find_open_errors(*make_run("npm run check", output + "\nCommand exited with code 2"))
    assert 0 < len(lines) <= 6
    assert max(map(len, lines)) <= 300


def test_a_bare_label_is_not_the_error() -> None:
    story = [
        make_call("str_replace_editor", command="str_replace", path="/a.py"),
        make_result("ERROR:\nNo match for the old text"),
    ]
    assert find_open_errors(*story) == ["No match for the old text"]


def make_commit(subject: str, made: str) -> list[Message]:
    command = f'git commit -m "$(cat <<\'EOF\'\n{subject}\n\n- a "quoted" point\nEOF\n)"'
    return make_run(command, f"[main {made}] {subject}\n 1 file changed")


def test_commits_with_long_messages_are_told_apart_by_their_subjects() -> None:
    history = [*make_commit("Read dates as UTC", "1507f8b"), *make_commit("Round half to even", "2608a9c")]
    found = [(fact.text, fact.outcome) for fact in get_facts(*history) if isinstance(fact, CommandRun)]
    assert found == [
        ('git commit -m "Read dates as UTC [+1 lines]', "ok: 1507f8b"),
        ('git commit -m "Round half to even [+1 lines]', "ok: 2608a9c"),
    ]
