"""What an edit changed, in every form in which agents edit; and that each changed file is told once."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.edit_content import MAX_CHANGE_CHARS, MAX_CHANGES
from tenfold.core.record.fact import ChangedFile
from tenfold.core.record.message import Message
from tests.summarize.making import get_facts, make_answer, make_call, make_result, make_run, make_user

PATCH = """*** Begin Patch
*** Update File: shop/tax.py
@@ def rate(kind):
-    return 19
+    return 7 if kind == "book" else 19
*** Add File: shop/notes.py
+def list_notes():
+    return []
*** End Patch"""
DIFF = """--- a/shop/tax.py
+++ b/shop/tax.py
@@ -1,2 +1,2 @@
-RATE = 19
+RATE = 7
"""


def get_contents(*messages: Message) -> dict[str, str]:
    """What is told of each changed file, by its path."""
    return {fact.text: fact.content for fact in get_facts(*messages) if isinstance(fact, ChangedFile)}


@pytest.mark.parametrize(
    ("call", "content"),
    [
        (
            make_call(
                "Edit",
                file_path="a.py",
                old_string="def f():\n    x = 1\n    y = 2",
                new_string="def f():\n    x = 3\n    y = 2",
            ),
            "in f: x = 1 -> x = 3",
        ),
        (make_call("edit", path="a.py", oldText="a = 1\nb = 2\n", newText="a = 1\n"), "b = 2 -> (removed)"),
        (
            make_call(
                "MultiEdit",
                file_path="a.py",
                edits=[{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}],
            ),
            "a -> b; c -> d",
        ),
        (
            make_call("str_replace_editor", command="insert", path="a.py", insert_line=3, new_str="import re"),
            "+ import re",
        ),
        (make_call("str_replace_editor", command="undo_edit", path="a.py"), "undid the last edit"),
        (
            make_call("write", path="a.py", content="import re\n\n\nclass Cart:\n    def add(self):\n        pass\n"),
            "7 lines: Cart, add",
        ),
        (make_call("write", path="a.md", content="# Plan\n\ntext\n\n## Next\n"), "6 lines: Plan, Next"),
        (make_call("write", path="a.cfg", content="port = 1\nhost = x"), "2 lines: port = 1 / host = x"),
        (make_call("NotebookEdit", notebook_path="a.ipynb", new_source="plot(x)"), "+ plot(x)"),
        (
            make_call("replace_in_file", path="a.py", diff="------- SEARCH\na = 1\n=======\na = 2\n+++++++ REPLACE\n"),
            "a = 1 -> a = 2",
        ),
        (make_call("bash", command="cat > a.py <<'EOF'\ndef main():\n    pass\nEOF"), "2 lines: main"),
        (make_call("bash", command="cat >> a.py <<EOF\nlast = 1\nEOF\npython a.py"), "+ last = 1"),
        (make_call("bash", command="cd src && sed -i 's/a/b/' a.py && pytest"), "by `sed -i 's/a/b/' a.py`"),
        (make_call("bash", command="echo 'x = 1' >> a.py"), "by `echo 'x = 1' >> a.py`"),
    ],
)
def test_what_was_changed(call: Message, content: str) -> None:
    assert list(get_contents(call, make_result("Done: success, 1 passed")).values()) == [content]


def test_a_patch_is_told_file_by_file() -> None:
    expected = {
        "shop/tax.py": 'in rate: return 19 -> return 7 if kind == "book" else 19',
        "shop/notes.py": "2 lines: list_notes",
    }
    assert get_contents(make_call("apply_patch", input=PATCH), make_result("Done!")) == expected
    assert get_contents(*make_run(f"apply_patch <<'EOF'\n{PATCH}\nEOF", "Done!")) == expected


@pytest.mark.parametrize("program", ["git apply", "patch -p1", "git apply --index -"])
def test_a_diff_given_to_a_program(program: str) -> None:
    assert get_contents(*make_run(f"{program} <<'EOF'\n{DIFF}EOF", "")) == {"shop/tax.py": "RATE = 19 -> RATE = 7"}


def make_text_step(action: str, output: str, file: str) -> list[Message]:
    answer = make_answer(f"Next.\n```\n{action}\n```")
    state = f"{output}\n(Open file: {file})\n(Current directory: /w)\nbash-$"
    return [answer, Message("user", make_user(state).parts, "tool")]


def test_an_edit_written_as_text_changes_the_open_file() -> None:
    steps = [
        *make_text_step("open a.py", "[File: /w/a.py (9 lines total)]\n1:x", "/w/a.py"),
        *make_text_step("edit 3:4\n    y = 2\nend_of_edit", "[File: /w/a.py]\n3:    y = 2\nFile updated.", "/w/a.py"),
    ]
    assert get_contents(*steps) == {"/w/a.py": "lines 3 to 4 -> y = 2"}
    one = make_text_step("edit 3:3\n    y = 4\nend_of_edit", "[File: /w/a.py]\n3:    y = 4\nFile updated.", "/w/a.py")
    assert get_contents(*steps[:2], *one) == {"/w/a.py": "line 3 -> y = 4"}
    refused = make_text_step(
        "edit 3:4\n  y =\nend_of_edit", "Your proposed edit has introduced new syntax error(s).", "/w/a.py"
    )
    assert get_contents(*steps[:2], *refused) == {}


def test_an_edit_tool_without_a_path_changes_the_open_file() -> None:
    opened = [make_call("open", path="a.py"), make_result("[File: /w/a.py]\n1:x\n(Open file: /w/a.py)\n")]
    edited = [make_call("edit", search="x", replace="y"), make_result("Text replaced.\n(Open file: /w/a.py)\n")]
    assert get_contents(*opened, *edited) == {"/w/a.py": "x -> y"}


def test_the_newest_changes_of_a_file_stay() -> None:
    edits = [
        message
        for n in range(9)
        for message in (make_call("edit", path="a.py", old=f"a = {n}", new=f"a = {n + 1}"), make_result("Edited"))
    ]
    lines = get_contents(*edits)["a.py"].split("\n")
    assert lines == [f"a = {n} -> a = {n + 1}" for n in range(9 - MAX_CHANGES, 9)]


def test_a_change_is_bounded_and_has_no_secrets() -> None:
    long = make_call("edit", path="a.py", old="a\n" * 900, new="password = 'hunter2secret99'\n" + "b = 1\n" * 900)
    content = get_contents(long, make_result("Edited"))["a.py"]
    assert len(content) <= MAX_CHANGE_CHARS
    assert "hunter2" not in content


def test_a_file_that_a_command_writes_and_moves_over_another_is_a_change_of_that_one() -> None:
    read = [make_call("read", path="a.json"), make_result('{\n "x": 1\n}')]
    command = "jq '.x = 2' a.json > a.tmp && mv a.tmp a.json"
    (change,) = [fact for fact in get_facts(*read, *make_run(command, "")) if isinstance(fact, ChangedFile)]
    assert (change.kind, change.text, change.content) == (
        "file_modified",
        "a.json",
        f"by `{command.replace(' &&', ';')}`",
    )


def test_a_folder_that_one_command_makes_and_removes_is_no_change() -> None:
    assert get_contents(
        *make_run("mkdir tmp && cp a.py tmp/a.py && python tmp/a.py; rm -r tmp && touch b.py", "1")
    ) == {"b.py": ""}
