"""File facts: from tool names and arguments, and from shell commands; the latest state of a path wins."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.extractor import merge_facts
from tenfold.compaction.facts.parse import parse_claims
from tenfold.compaction.facts.section_headings import HEADINGS, TITLE
from tenfold.compaction.facts.shell import find_file_effects, get_program, is_read_only, normalize_command
from tenfold.core.record.fact import ChangedFile, Fact, FileRead
from tenfold.core.record.message import Message, Text
from tests.summarize.making import get_facts, make_answer, make_call, make_result, make_run, make_user


def get_states(*messages: Message) -> dict[str, str]:
    files = [fact for fact in get_facts(*messages) if isinstance(fact, ChangedFile | FileRead) and fact.live]
    return {fact.label: fact.kind.removeprefix("file_") for fact in files}


@pytest.mark.parametrize(
    ("tool", "arguments", "state"),
    [
        ("read", {"path": "/a/b.py"}, "read"),
        ("Read", {"file_path": "/a/b.py"}, "read"),
        ("read_file", {"absolute_path": "/a/b.py"}, "read"),
        ("str_replace_editor", {"command": "view", "path": "/a/b.py"}, "read"),
        ("Write", {"file_path": "/a/b.py", "content": "x"}, "created"),
        ("str_replace_editor", {"command": "create", "path": "/a/b.py", "file_text": "x"}, "created"),
        ("Edit", {"file_path": "/a/b.py", "old_string": "a", "new_string": "b"}, "modified"),
        ("MultiEdit", {"file_path": "/a/b.py", "edits": []}, "modified"),
        ("str_replace_editor", {"command": "str_replace", "path": "/a/b.py"}, "modified"),
        ("replace", {"file_path": "/a/b.py"}, "modified"),
        ("mcp__fs__edit_file", {"path": "/a/b.py"}, "modified"),
        ("delete_file", {"path": "/a/b.py"}, "deleted"),
        ("apply_patch", {"type": "create_file", "path": "/a/b.py", "diff": "+x"}, "created"),
        ("apply_patch", {"type": "update_file", "path": "/a/b.py", "diff": "+x"}, "modified"),
        ("apply_patch", {"type": "delete_file", "path": "/a/b.py"}, "deleted"),
    ],
)
def test_tool_calls(tool: str, arguments: dict[str, object], state: str) -> None:
    assert get_states(make_call(tool, **arguments), make_result("done")) == {"/a/b.py": state}


def test_a_patch_names_its_files() -> None:
    patch = "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: old.py\n@@\n*** Delete File: gone.py\n"
    assert get_states(make_call("apply_patch", input=patch), make_result("Done!")) == {
        "new.py": "created",
        "old.py": "modified",
        "gone.py": "deleted",
    }


PATCH = """*** Begin Patch
*** Update File: src/App.tsx
@@
-  onPress={() => go()}
+  onPress={(b) => set(b[1] > limit ? "it's" : <Load />)}
*** Add File: docs/a.md
+old > new.md
*** End Patch"""


@pytest.mark.parametrize(
    "command",
    [
        ["apply_patch", PATCH],
        ["apply_patch", PATCH + "\n"],
        ["bash", "-lc", f"apply_patch << 'PATCH'\n{PATCH}\nPATCH"],
        ["/bin/zsh", "-lc", f"cd /w && applypatch <<'EOF'\n{PATCH}\nEOF\n"],
        f"apply_patch <<EOF\n{PATCH}\nEOF",
    ],
)
def test_a_patch_given_to_a_shell_changes_the_files_it_names_and_no_others(command: object) -> None:
    expected = {"src/App.tsx": "modified", "docs/a.md": "created"}
    assert get_states(make_call("shell", command=command), make_result("Done!")) == expected
    refused = [make_call("shell", command=command), make_result("error: Failed to find expected lines", error=True)]
    assert get_states(*refused) == {}
    assert [fact.live for fact in get_facts(*refused, kind="error")] == [True]
    again = [make_call("shell", command=["apply_patch", PATCH.replace("limit", "0")]), make_result("Done!")]
    assert [fact.live for fact in get_facts(*refused, *again, kind="error")] == [False]


def test_a_patch_among_other_commands() -> None:
    command = f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm gone.py && npm test"
    assert get_states(*make_run(command)) == {"src/App.tsx": "modified", "docs/a.md": "created", "gone.py": "deleted"}


def test_a_command_given_word_by_word_is_not_read_again_by_a_shell() -> None:
    assert get_states(make_call("shell", command=["grep", "-n", "a > b", "x.py"]), make_result("3")) == {}
    assert get_states(make_call("shell", command=["python", "-c", "print(a > b)"]), make_result("3")) == {}
    assert get_states(make_call("shell", command=["rm", "b c.txt"]), make_result("")) == {"b c.txt": "deleted"}
    assert get_states(make_call("shell", commands=["rm a.py", "rm b.py"]), make_result("")) == {
        "a.py": "deleted",
        "b.py": "deleted",
    }


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm -f a.py 'b c.txt'", {"a.py": "deleted", "b c.txt": "deleted"}),
        ("git rm old.py", {"old.py": "deleted"}),
        ("mv a.py b.py", {"a.py -> b.py": "renamed"}),
        ("cd /repo && git mv src/a.py src/core/", {"/repo/src/a.py -> /repo/src/core/a.py": "renamed"}),
        ("sed -i 's/a/b/' x.py y.py", {"x.py": "modified", "y.py": "modified"}),
        ("sed -i '' 's|a/b.js|c/d.js|g' x.ts", {"x.ts": "modified"}),
        ("cat > notes.md <<'EOF'\nrm important.py\nEOF", {"notes.md": "created"}),
        ("echo hi >> log.txt", {"log.txt": "modified"}),
        ("make | tee build.log", {"build.log": "created"}),
        ("touch new.py", {"new.py": "created"}),
        ("cp a.py b.py", {"b.py": "created"}),
        ("# rm commented.py\nls", {}),
        ("rm *.pyc $TMP/x", {}),
        ("npm test 2>&1 > /dev/null", {}),
    ],
)
def test_shell_commands(command: str, expected: dict[str, str]) -> None:
    assert get_states(*make_run(command)) == expected


def test_the_latest_state_of_a_path_wins() -> None:
    made = [
        make_call("write", path="/a.py", content="x"),
        make_result("ok"),
        make_call("edit", path="/a.py"),
        make_result("ok"),
    ]
    assert get_states(*made) == {"/a.py": "created"}
    assert get_states(*made, *make_run("rm /a.py")) == {"/a.py": "deleted"}
    assert get_states(*made, *make_run("mv /a.py /b.py")) == {"/a.py -> /b.py": "renamed"}
    assert get_states(*made, *make_run("rm /a.py"), make_call("write", path="/a.py"), make_result("ok")) == {
        "/a.py": "created"
    }


def test_writing_a_file_that_was_there_changes_it() -> None:
    written = [make_call("write", path="/a.py"), make_result("ok")]
    assert get_states(*written) == {"/a.py": "created"}
    assert get_states(make_call("read", path="/a.py"), make_result("x"), *written) == {"/a.py": "modified"}
    assert get_states(make_call("edit", path="/a.py"), make_result("x"), *written) == {"/a.py": "modified"}


def test_what_becomes_of_a_folder_takes_no_look_at_what_lies_elsewhere() -> None:
    facts: list[Fact] = []
    expected: dict[str, str] = {}
    for at in range(0, 60_000, 3):
        facts.append(ChangedFile(f"old/{at}/a.o", at, change="created"))
        facts.append(ChangedFile(f"new/{at}", at + 1, change="renamed", old_path=f"old/{at}"))
        expected |= {f"new/{at}": "file_renamed", f"new/{at}/a.o": "file_created"}
        if at % 2:
            facts.append(ChangedFile(f"new/{at}", at + 2, change="deleted"))
            expected |= {f"new/{at}": "file_deleted", f"new/{at}/a.o": "file_deleted"}
    assert {fact.text: fact.kind for fact in merge_facts((), facts)} == expected


def test_a_renamed_folder_takes_its_files_along_and_a_removed_one_takes_them_away() -> None:
    edited = [make_call("edit", path="/r/old/a.py"), make_result("ok")]
    assert get_states(*edited, *make_run("mv /r/old /r/new")) == {
        "/r/new/a.py": "modified",
        "/r/old -> /r/new": "renamed",
    }
    assert get_states(*edited, *make_run("rm -r /r/old")) == {"/r/old/a.py": "deleted", "/r/old": "deleted"}


def test_a_relative_path_is_the_absolute_one_that_ends_in_it() -> None:
    assert get_states(
        *make_run("sed -i s/a/b/ src/a.py"), make_call("edit", path="/repo/src/a.py"), make_result("ok")
    ) == {"/repo/src/a.py": "modified"}


def test_a_failed_edit_changes_nothing() -> None:
    assert get_states(make_call("edit", path="/a.py"), make_result("Could not find the exact text in /a.py")) == {}
    assert get_states(make_call("edit", path="/a.py"), make_result("nope", error=True)) == {}
    assert get_states(make_call("edit", path="/a.py")) == {}


def test_of_a_failed_chain_all_but_the_last_command_counts() -> None:
    assert get_states(*make_run("mv a.py b.py && npm run check", "boom\nCommand exited with code 1")) == {
        "a.py -> b.py": "renamed"
    }
    assert get_states(*make_run("rm a.py", "rm: cannot remove\nCommand exited with code 1")) == {}


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("npm test && rm -rf dist && git push", {}),
        ("npm test; rm -rf dist; git push", {"dist": "deleted"}),
        ("mkdir -p out && cp a.py out/b.py && npm run check", {"out/b.py": "created"}),
        ("git add a.py && mv a.py b.py && npm run check", {"a.py -> b.py": "renamed"}),
    ],
)
def test_what_a_failed_chain_did_before_it_could_fail(command: str, state: dict[str, str]) -> None:
    assert get_states(*make_run(command, "boom\nCommand exited with code 1")) == state


@pytest.mark.parametrize(
    "command", ["test -f .env || cp .env.example .env", "grep -q x notes.txt || rm notes.txt", "make || mv a.py b.py"]
)
def test_what_runs_only_where_something_failed_is_not_told(command: str) -> None:
    assert {path: state for path, state in get_states(*make_run(command, "")).items() if state != "read"} == {}


def test_a_command_whose_failure_does_not_matter_counts() -> None:
    assert get_states(*make_run("rm old.py || true", "")) == {"old.py": "deleted"}


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("rm a.py", "rm: cannot remove 'a.py': Permission denied"),
        ("rm a.py", "rm: a.py: Permission denied"),
        ("mv a.py b.py", "mv: cannot stat 'a.py': No such file or directory"),
        ("cp a.py b.py", "cp: cannot stat 'a.py': No such file or directory"),
    ],
)
def test_a_program_that_says_it_could_not_changes_nothing(command: str, output: str) -> None:
    assert get_states(*make_run(command, output)) == {}


def test_what_was_done_beside_it_counts() -> None:
    assert get_states(*make_run("rm a.py; touch c.py", "rm: cannot remove 'a.py': Permission denied")) == {
        "c.py": "created"
    }


@pytest.mark.parametrize(
    "output",
    [
        "Permission denied: /etc/hosts",
        "[Errno 13] Permission denied: 'a.py'",
        "ENOENT: no such file or directory, open 'a.py'",
        "No match found for old_string in a.py",
        "File not found: a.py",
        "Access denied - path outside allowed directories: a.py",
        "old_string was not found in the file",
        "Cannot edit: file has changed since last read",
        "Unable to apply the change",
        "a.py does not exist",
        "The edit was rejected",
        "Tool execution timed out after 30s",
    ],
)
def test_an_edit_that_says_it_did_not_happen_changes_nothing(output: str) -> None:
    edit = make_call("edit_file", path="a.py", old_string="x", new_string="y")
    assert get_states(edit, make_result(output)) == {}


@pytest.mark.parametrize("output", ["The file a.py was edited.", "Applied 1 change; 0 not found", "ok", ""])
def test_an_edit_that_says_nothing_of_a_failure_happened(output: str) -> None:
    assert get_states(make_call("edit_file", path="a.py"), make_result(output)) == {"a.py": "modified"}


@pytest.mark.parametrize("command", ["git checkout .", "git checkout -- .", "git restore .", "git reset --hard"])
def test_what_is_thrown_away_is_what_was_not_committed(command: str) -> None:
    edited = [m for name in ("/r/a.py", "/r/lib/b.py") for m in (make_call("edit", path=name), make_result("ok"))]
    assert get_states(*edited, *make_run(command)) == {}
    committed = make_run("git commit -am x", "[main 1507f8b] x\n 1 file changed")
    assert set(get_states(*edited, *committed, *make_run(command))) == {"/r/a.py", "/r/lib/b.py"}
    assert set(get_states(*edited, *make_run(command), make_call("edit", path="/r/a.py"), make_result("ok"))) == {
        "/r/a.py"
    }
    new = [make_call("write", path="/r/new.py", content="x"), make_result("ok")]
    assert set(get_states(*edited, *new, *make_run(command))) == {"/r/new.py"}


def test_what_is_thrown_away_in_a_folder_leaves_the_others() -> None:
    edited = [m for name in ("/r/a.py", "/r/lib/b.py") for m in (make_call("edit", path=name), make_result("ok"))]
    assert set(get_states(*edited, *make_run("git checkout -- /r/lib"))) == {"/r/a.py"}


def test_text_actions_of_an_agent_without_tool_calls() -> None:
    def make_tool_message(text: str) -> Message:
        return Message("user", (Text(text),), "tool")

    story = [
        make_user("fix it"),
        make_answer("Open it.\n<command>\nopen src/a.py\n</command>"),
        make_tool_message("[File: x]\n(Open file: /r/src/a.py)\nbash-$"),
        make_answer("Change it.\n```\nedit 12:20\nnew\nend_of_edit\n```"),
        make_tool_message("File updated.\n(Open file: /r/src/a.py)\nbash-$"),
        make_answer("```\ncreate repro.py\n```"),
        make_tool_message("[File: repro.py]\n(Open file: /r/repro.py)\nbash-$"),
        make_answer("<command>\nedit 1:1\nnew\nend_of_edit\n</command>"),
        make_tool_message("File updated.\n(Open file: /r/repro.py)\nbash-$"),
        make_answer("<command>\nopen src/b.py\n</command>"),
        make_tool_message("[File: x]\n(Open file: /r/src/b.py)\nbash-$"),
        make_answer("<command>\nedit 2:2\nnew\nend_of_edit\n</command>"),
        make_tool_message("File updated.\n(Open file: /r/src/b.py)\nbash-$"),
    ]
    assert get_states(*story) == {"/r/src/a.py": "modified", "/r/repro.py": "created", "/r/src/b.py": "modified"}


def test_names_of_commands() -> None:
    assert normalize_command("cd /x && npm run check 2>&1 | tail -20") == "npm run check"
    assert normalize_command("FOO=1 sudo make -j4 > log") == "make -j4"
    assert get_program("npm run check --silent") == "npm run check"
    assert get_program("python -m unittest tests.a -v") == "python -m unittest tests.a"
    assert get_program("git push --force") == "git push"
    assert get_program("mypy --strict src/a.py") == "mypy src/a.py"
    assert get_program("cargo test --release -p alpha") == "cargo test alpha"
    assert normalize_command('NAME="a b" make all') == "make all"
    assert is_read_only(normalize_command("cd /x && grep -rn foo . | head && git log -3"))
    assert not is_read_only(normalize_command("grep foo x && make"))
    assert find_file_effects("") == ()


REVERT = (
    '[main 5589fb2] Revert "store becomes storage"\n 4 files changed, 13 insertions(+), 13 deletions(-)\n'
    " rename tests/{test_storage.py => test_store.py} (63%)\n rename storage.py => store.py (100%)\n"
)
RENAMED = [
    *make_run("git mv store.py storage.py && git mv tests/test_store.py tests/test_storage.py", ""),
    *make_run("sed -i 's/store/storage/' tests/test_storage.py && git commit -qam 'store becomes storage'", ""),
]


def test_a_rename_that_a_revert_takes_back_is_none() -> None:
    assert get_states(*RENAMED) == {
        "store.py -> storage.py": "renamed",
        "tests/test_store.py -> tests/test_storage.py": "renamed",
    }
    assert get_states(*RENAMED, *make_run("git revert --no-edit HEAD", REVERT)) == {"tests/test_store.py": "modified"}
    assert get_states(*RENAMED, *make_run("cat log.txt", REVERT)) == get_states(*RENAMED) | {"log.txt": "read"}


def test_a_rename_in_two_steps_is_one_and_there_and_back_is_none() -> None:
    there = make_run("mv a.py b.py", "")
    assert get_states(*there, *make_run("mv b.py c.py", "")) == {"a.py -> c.py": "renamed"}
    assert get_states(*there, *make_run("mv b.py a.py", "")) == {}
    changed = [make_call("edit", path="a.py", old_string="x", new_string="y"), make_result("Edited.")]
    assert get_states(*changed, *there, *make_run("mv b.py a.py", "")) == {"a.py": "modified"}


def test_an_absolute_path_is_renamed_back_by_a_relative_one() -> None:
    steps = [*make_run("git mv /r/src/store.py /r/src/storage.py", "")]
    back = " rename src/{storage.py => store.py} (100%)\n"
    assert get_states(*steps, *make_run("git revert HEAD", back)) == {}


def test_a_claimed_rename_without_an_old_path_moves_nothing() -> None:
    heading = next(each.line for each in HEADINGS if each.kind == "file_renamed")
    claimed = parse_claims(f"{TITLE}\n{heading}\n- notes.md", position=9)
    merged = merge_facts([ChangedFile("/a/b.py", 1), FileRead("/c/d.py", 2)], claimed)
    assert {fact.text for fact in merged} == {"/a/b.py", "/c/d.py", "notes.md"}
