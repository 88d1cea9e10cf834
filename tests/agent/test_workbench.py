"""The file tools of the coding agent, on real files: what they reach, what they refuse, what they ask."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ToolFailed

from tenfold.apps.agent.coding_tools import MAX_LISTED_NAMES, CodingTools
from tenfold.apps.agent.file_tree import MAX_FILE_BYTES, MAX_MATCHES, FileTree
from tests.agent.bench import Asked, make_folder, make_python_command, make_workbench, posix


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


def read_folder(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def call_every_tool(work: CodingTools, path: str) -> list[str]:
    """What each tool that takes a path says when it refuses it."""
    calls: list[Callable[[], object]] = [
        lambda: work.read_file(path),
        lambda: work.list_files(path),
        lambda: asyncio.run(work.search_files("secret", path)),
        lambda: asyncio.run(work.write_file(path, "mine")),
        lambda: asyncio.run(work.edit_file(path, "secret", "mine")),
    ]
    return [get_refusal(call) for call in calls]


def get_refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ToolFailed) as refused:
        call()
    return refused.value.message


# -- what is inside ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "..", "src/../../outside/secret.txt", "../root2", "/etc/passwd", "/"]
)
def test_a_path_outside_is_refused_by_every_tool(root: Path, path: str) -> None:
    before, asked = read_folder(root.parent), Asked()
    for said in call_every_tool(make_workbench(root, asked), path):
        assert "outside the working folder" in said
        assert "secret\n" not in said
    assert read_folder(root.parent) == before
    assert asked.lines == [], "nothing that is refused anyway is asked about"


@posix
@pytest.mark.parametrize("path", ["file", "folder/secret.txt", "chain", "src/back/../outside/secret.txt", "missing"])
def test_a_link_that_leads_outside_is_refused_by_every_tool(root: Path, path: str) -> None:
    (root / "file").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "folder").symlink_to("../outside")
    (root / "chain").symlink_to("file")
    (root / "src" / "back").symlink_to("../../outside")
    (root / "missing").symlink_to("../outside/not-there-yet")
    before = read_folder(root.parent)
    assert all("outside the working folder" in said for said in call_every_tool(make_workbench(root), path))
    assert read_folder(root.parent) == before


@posix
def test_links_that_stay_inside_are_followed_and_the_question_names_the_target(root: Path) -> None:
    (root / "lib").symlink_to("src")
    (root / "short").symlink_to("lib/a.py")
    asked = Asked()
    assert make_workbench(root, asked).read_file("lib/a.py") == "one\ntwo\nthree\n"
    asyncio.run(make_workbench(root, asked).write_file("short", "new"))
    assert (root / "short").is_symlink(), "the link stays, its target is written"
    assert (root / "src" / "a.py").read_text() == "new"
    assert asked.lines == ["write src/a.py: 3 bytes, in place of 14"]


@posix
def test_a_root_that_is_a_link_itself_is_resolved(root: Path) -> None:
    (root.parent / "alias").symlink_to("root")
    work = make_workbench(root.parent / "alias")
    assert work.read_file(str(root / "src" / "a.py")) == "one\ntwo\nthree\n", "an absolute path inside"
    assert work.read_file("src/../src/a.py") == "one\ntwo\nthree\n"


def test_a_root_that_is_no_folder_is_an_error_of_the_caller(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        make_workbench(root / "src" / "a.py")


@posix
def test_a_link_that_takes_the_place_of_a_checked_name_is_not_followed(root: Path) -> None:
    tree = FileTree(root)
    file, deep = tree.locate("src/a.py"), tree.locate("src/deep/b.py")
    (root / "src" / "a.py").unlink()
    (root / "src" / "a.py").symlink_to(root.parent / "outside" / "secret.txt")
    with pytest.raises(Exception, match="not a regular file"):
        tree.read_bytes(file)
    (root / "src" / "deep").symlink_to(root.parent / "outside")
    (root.parent / "outside" / "b.py").write_text("secret")
    with pytest.raises(NotADirectoryError):
        tree.read_bytes(deep)


@posix
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_a_folder_that_becomes_a_link_while_the_question_is_open_is_not_followed(root: Path, tool: str) -> None:
    (root.parent / "outside" / "a.py").write_text("one\ntwo\nthree\n")

    def swap() -> None:
        (root / "src").rename(root / "was")
        (root / "src").symlink_to(root.parent / "outside")

    work = make_workbench(root, Asked(meanwhile=swap))
    doing = work.write_file("src/a.py", "mine") if tool == "write" else work.edit_file("src/a.py", "two", "mine")
    with pytest.raises(ToolFailed):
        asyncio.run(doing)
    assert (root.parent / "outside" / "a.py").read_text() == "one\ntwo\nthree\n"
    assert (root / "was" / "a.py").read_text() == "one\ntwo\nthree\n"


@posix
def test_a_file_that_becomes_a_link_while_the_question_is_open_is_not_written_through(root: Path) -> None:
    def swap() -> None:
        (root / "new.txt").symlink_to(root.parent / "outside" / "secret.txt")

    with pytest.raises(ToolFailed, match="not a regular file"):
        asyncio.run(make_workbench(root, Asked(meanwhile=swap)).write_file("new.txt", "mine"))
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret\n"


@posix
def test_a_second_name_outside_keeps_its_bytes(root: Path) -> None:
    os.link(root.parent / "outside" / "secret.txt", root / "hard")
    asyncio.run(make_workbench(root).write_file("hard", "mine"))
    assert (root / "hard").read_text() == "mine"
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret\n"


@pytest.mark.parametrize(
    ("path", "said"),
    [("a\0b", "NUL"), ("", "at least one character"), ("x" * 5000, "too long"), ("\ud800", "U\\+D800")],
)
@posix
def test_names_that_no_file_can_have(root: Path, path: str, said: str) -> None:
    assert all(re.search(said, each) for each in call_every_tool(make_workbench(root), path))


@posix
def test_a_pipe_and_a_device_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/null")
    with pytest.raises(ToolFailed, match="not a regular file"):
        make_workbench(root).read_file("pipe")
    with pytest.raises(ToolFailed, match="not a regular file"):
        asyncio.run(make_workbench(root).write_file("pipe", "x"))
    with pytest.raises(ToolFailed, match="outside"):
        make_workbench(root).read_file("null")
    assert "[0 matching lines; 1 files left out" in asyncio.run(make_workbench(root).search_files("x"))
    with pytest.raises(ToolFailed, match="not a regular file"):
        CodingTools(Path("/dev"), Asked()).read_file("null")


@posix
def test_links_in_a_circle(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(ToolFailed):
        make_workbench(root).read_file("a")
    (root / "src" / "up").symlink_to("..")
    assert asyncio.run(make_workbench(root).search_files("two")) == "src/a.py:2:two\n[1 matching lines]"


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["one\r\ntwo\r\n", "\ufeffx", "  \n\n\t", "no end", "a\x0cb\u2028c\n", "\x1b[31mred\n"]
)
def test_what_is_read_is_what_is_there(root: Path, text: str) -> None:
    (root / "f").write_bytes(text.encode())
    assert make_workbench(root).read_file("f") == text


def test_a_part_of_a_file_says_which_part(root: Path) -> None:
    (root / "f").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    first = make_workbench(root).read_file("f")
    assert first.startswith("1\n2\n")
    assert first.endswith("400\n[lines 1 to 400 of 1000; first_line=401 shows more]")
    assert make_workbench(root).read_file("f", 999, 5) == "999\n1000\n[lines 999 to 1000 of 1000]"
    for first_line, lines in ((1001, 1), (0, 1), (-1, 1), (1, 0)):
        with pytest.raises(ToolFailed, match="has 1000 lines"):
            make_workbench(root).read_file("f", first_line, lines)


def test_every_line_can_be_reached_within_the_bound(root: Path) -> None:
    (root / "f").write_text("".join(f"{n} {'x' * 90}\n" for n in range(1000, 1100)))
    work, seen, line = CodingTools(root, Asked(), max_size=1000), "", 1
    while line <= 100:
        text = work.read_file("f", line)
        assert len(text) < 1100
        body, note = text.rsplit("[", 1)
        found = re.match(rf"lines {line} to (\d+) of 100", note)
        assert found is not None
        seen, line = seen + body, int(found.group(1)) + 1
    assert seen == (root / "f").read_text()


def test_a_line_longer_than_the_bound_is_cut_and_says_so(root: Path) -> None:
    (root / "f").write_text("y" * 5000)
    assert (
        CodingTools(root, Asked(), max_size=1000).read_file("f")
        == "y" * 1000 + "\n[line 1 of 1, cut at 1,000 of 5,000]"
    )


def test_what_cannot_be_shown_says_why(root: Path) -> None:
    (root / "binary").write_bytes(b"abc\0def")
    (root / "latin").write_bytes("caf\u00e9".encode("latin-1"))
    (root / "empty").write_bytes(b"")
    (root / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (root / "largest").write_bytes(b"x" * MAX_FILE_BYTES)
    work = make_workbench(root)
    for path, said in (
        ("binary", "binary file .7 bytes, a NUL at byte 3"),
        ("latin", "not UTF-8 text: byte 3 is 0xe9"),
        ("large", "5,000,001 bytes, and at most 5,000,000"),
        ("src", "is a folder, not a file"),
        (".", "is a folder, not a file"),
        ("nowhere/x", "no such file"),
        ("src/a.py/x", "as if it were a folder"),
    ):
        with pytest.raises(ToolFailed, match=said) as refused:
            work.read_file(path)
        assert str(root) not in refused.value.message
    assert work.read_file("empty") == "[the file is empty]"
    assert work.read_file("largest").startswith("xxx")


@posix
def test_a_listing_marks_folders_and_links_and_has_a_bound(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    (root / "odd\nname").write_text("")
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))
    assert make_workbench(root).list_files() == "odd\u240aname\nout@\nsrc/\n<U+DCFF>"
    assert make_workbench(root).list_files("src") == "a.py"
    with pytest.raises(ToolFailed, match="is a file"):
        make_workbench(root).list_files("src/a.py")
    with pytest.raises(ToolFailed, match="no such file or folder"):
        make_workbench(root).list_files("nowhere")
    (root / "many").mkdir()
    assert make_workbench(root).list_files("many") == "[the folder is empty]"
    for number in range(MAX_LISTED_NAMES + 7):
        (root / "many" / f"{number:04}").touch()
    listed = make_workbench(root).list_files("many").split("\n")
    assert len(listed) == MAX_LISTED_NAMES + 1
    assert listed[-1] == f"[7 of {MAX_LISTED_NAMES + 7} names left out]"


# -- searching ---------------------------------------------------------------------------------------------------------


def test_a_search_gives_path_line_and_text_and_counts(root: Path) -> None:
    (root / "b.txt").write_bytes(b"  two \r\n")
    (root / "c.bin").write_bytes(b"two\0")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("two\n")
    found = asyncio.run(make_workbench(root).search_files(r"^\s*t(wo|hree)\s*$"))
    assert found.startswith("b.txt:1:  two \r\nsrc/a.py:2:two\nsrc/a.py:3:three\n[3 matching lines; 1 files left out")
    assert asyncio.run(make_workbench(root).search_files("two", "src/a.py")) == "src/a.py:2:two\n[1 matching lines]"
    assert asyncio.run(make_workbench(root).search_files("two", ".git")) == ".git/config:1:two\n[1 matching lines]"
    assert asyncio.run(make_workbench(root).search_files("four", "src")) == "[0 matching lines]"


def test_a_search_that_cannot_be_is_refused(root: Path) -> None:
    with pytest.raises(ToolFailed, match=r"no regular expression: .*position 0"):
        asyncio.run(make_workbench(root).search_files("(open"))
    with pytest.raises(ToolFailed, match="no such file or folder"):
        asyncio.run(make_workbench(root).search_files("x", "nowhere"))


def test_a_search_has_a_bound_in_lines_and_in_characters(root: Path) -> None:
    (root / "many").write_text("hit\n" * (MAX_MATCHES + 1))
    lines = asyncio.run(make_workbench(root).search_files("hit")).split("\n")
    assert len(lines) == MAX_MATCHES + 1
    assert lines[-1].startswith(f"[stopped after {MAX_MATCHES} matching lines")
    (root / "many").write_text("hit\n" * MAX_MATCHES)
    assert f"[{MAX_MATCHES} matching lines]" in asyncio.run(make_workbench(root).search_files("hit"))
    short = asyncio.run(CodingTools(root, Asked(), max_size=200).search_files("hit"))
    assert len(short) < 300
    assert "there are more" in short
    (root / "wide").write_text("a" * 10_000 + "needle" + "b" * 10_000)
    wide = asyncio.run(make_workbench(root).search_files("needle"))
    assert "needle" in wide
    assert len(wide) < 400
    assert wide.startswith("wide:1:[...]")
    assert "b[...]\n" in wide


def test_a_pattern_that_never_ends_is_stopped_with_what_was_found(root: Path) -> None:
    (root / "a").write_text("aX\n")
    (root / "b").write_text("a" * 60 + "\n")
    for seconds in (1, 5, 25, 100):  # by then a slow machine has begun, too
        found = asyncio.run(CodingTools(root, Asked(), timeout=seconds).search_files(r"(a+)+X"))
        if found.startswith("a:"):
            break
    assert re.fullmatch(r"a:1:aX\n\[stopped after \d+ seconds: simplify the pattern\]", found)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_new_file_comes_with_its_folders_and_exactly_its_text(root: Path) -> None:
    asked = Asked()
    said = asyncio.run(make_workbench(root, asked).write_file("new/deep/f.txt", "caf\u00e9\r\n  "))
    assert (root / "new" / "deep" / "f.txt").read_bytes() == b"caf\xc3\xa9\r\n  "
    assert asked.lines == ["write new/deep/f.txt: 9 bytes, a new file"]
    assert said == "wrote new/deep/f.txt: 9 bytes, a new file"
    assert [path.name for path in (root / "new" / "deep").iterdir()] == ["f.txt"], "no draft is left"


def test_a_no_changes_nothing_and_tells_the_model(root: Path) -> None:
    before, asked = read_folder(root), Asked(yes=False)
    work = make_workbench(root, asked)
    for doing in (
        work.write_file("new/f.txt", "x"),
        work.write_file("src/a.py", "x"),
        work.edit_file("src/a.py", "two", "x"),
        work.run_command(make_python_command("open('made', 'w')")),
    ):
        with pytest.raises(ToolFailed, match=r"The user said no to this: (.|\n)*Nothing was changed or run"):
            asyncio.run(doing)
    assert read_folder(root) == before
    assert len(asked.lines) == 4
    assert asked.kinds == ["write", "write", "write", "command"]


def test_an_edit_replaces_the_only_place_and_nothing_else(root: Path) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfa\r\nb \r\nc")
    asked = Asked()
    said = asyncio.run(make_workbench(root, asked).edit_file("f", "b \r\n", "d\ne\n"))
    assert (root / "f").read_bytes() == b"\xef\xbb\xbfa\r\nd\ne\nc"
    assert asked.lines == ["edit f, line 2: 1 lines out, 2 in (11 bytes become 11)"]
    assert said == "edited f, line 2: 1 lines out, 2 in"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("zzz", "occurs 0 times"),
        ("x", "occurs 2 times, in lines 1, 3"),
        ("aa", "occurs 2 times, in lines 2, 2"),
        ("", "old is empty"),
        ("aaa\nx", r"occurs 0 times.* end in \\r\\n"),
    ],
)
def test_an_edit_without_its_one_place_says_how_often_it_occurs(root: Path, old: str, said: str) -> None:
    (root / "f").write_bytes(b"x\r\naaa\r\nx\r\n")
    asked = Asked()
    with pytest.raises(ToolFailed, match=said):
        asyncio.run(make_workbench(root, asked).edit_file("f", old, "new"))
    assert (root / "f").read_bytes() == b"x\r\naaa\r\nx\r\n"
    assert asked.lines == []


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_a_file_that_changes_while_the_question_is_open_is_left_alone(root: Path, tool: str) -> None:
    file = root / "src" / "a.py"
    work = make_workbench(root, Asked(meanwhile=lambda: file.write_text("one\ntwo\nthree\nfour\n")))
    doing = work.write_file("src/a.py", "mine") if tool == "write" else work.edit_file("src/a.py", "two", "2")
    with pytest.raises(ToolFailed, match="has changed since"):
        asyncio.run(doing)
    assert file.read_text() == "one\ntwo\nthree\nfour\n"


@posix
def test_permissions_stay_and_a_read_only_file_is_not_replaced(root: Path) -> None:
    file = root / "src" / "a.py"
    file.chmod(0o750)
    asyncio.run(make_workbench(root).edit_file("src/a.py", "two", "2"))
    assert file.stat().st_mode & 0o777 == 0o750
    file.chmod(0o444)
    for doing in (
        make_workbench(root).write_file("src/a.py", "x"),
        make_workbench(root).edit_file("src/a.py", "2", "x"),
    ):
        with pytest.raises(ToolFailed, match="read-only"):
            asyncio.run(doing)
    assert file.read_text() == "one\n2\nthree\n"


def test_what_is_no_file_is_not_written(root: Path) -> None:
    before, asked = read_folder(root), Asked()
    for path in (".", "src"):
        with pytest.raises(ToolFailed, match="is a folder"):
            asyncio.run(make_workbench(root, asked).write_file(path, "x"))
    with pytest.raises(ToolFailed, match="as if it were a folder"):
        asyncio.run(make_workbench(root, asked).write_file("src/a.py/x", "x"))
    with pytest.raises(ToolFailed, match=r"U\+D800"):
        asyncio.run(make_workbench(root, asked).write_file("f", "\ud800"))
    assert read_folder(root) == before
    assert asked.lines == []
