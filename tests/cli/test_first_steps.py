"""What a person meets on the first day: sessions found, one size everywhere, the whole view, slips that do no harm."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold.core.text.terminal_safe import strip_controls
from tests.cli.conftest import EXAMPLES, Cli, write_messages
from tests.cli.test_terminal import typed
from tests.clients.conftest import home

__all__ = ["home", "typed"]
PAIR = re.compile(r"([\d,]+) -> ([\d,]+)")
CLAUDE = "5f2c6a70-1111-4222-8333-944445555666"


@pytest.mark.parametrize(
    "line",
    [("compact", "", "--to", "10%"), ("export", "last", "--out", ""), ("show", "last", "--store", " "), ("import", "")],
)
def test_an_empty_path_is_no_folder(
    line: tuple[str, ...], tenfold: Cli, tmp_path: Path, pi: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """`tenfold compact "$UNSET" --to 10%` walked the current folder and stored what it found."""
    del home
    shutil.copyfile(pi, tmp_path / "here.jsonl")
    monkeypatch.chdir(tmp_path)
    ran = tenfold(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "the path is empty" in ran.err or "begins with ''" in ran.err
    assert not tenfold.run_ok("sessions", "--json").objects


def test_a_run_over_a_folder_goes_on_after_a_session_that_is_too_small(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copyfile(pi, folder / "b.jsonl")
    said = [{"role": role, "content": f"{role} " * 300} for role in ("user", "assistant")]
    write_messages(folder / "a.json", [*said, {"role": "user", "content": "Go on, and do all of it with care."}])
    lines = tenfold.run_ok("compact", folder, "--to", "2500", "--yes").out.splitlines()
    assert lines[-1].startswith("2 sessions (1 as they were, 1 compacted): ")
    lines = tenfold.run_ok("compact", folder, "--to", "6%", "--fresh").out.splitlines()
    assert any("a.json" in line for line in lines)
    assert any("what must stay takes" in line and "give --to" in line for line in lines)
    assert lines[-1].startswith("2 sessions (1 as they were, 1 compacted): ")
    alone = tenfold("compact", folder / "a.json", "--to", "6%")
    assert alone.code == 2, "where it is the only one, it is a mistake"


@pytest.mark.parametrize("size", [("--to", "10%"), ("--window", "30000")])
def test_a_compaction_has_one_pair_of_sizes_wherever_it_is_shown(
    size: tuple[str, ...], tenfold: Cli, claude: Path
) -> None:
    """The model is of another family than the counter, so the provider's count is estimated to be larger."""
    made = PAIR.findall(next(x for x in tenfold.run_ok("compact", claude, *size).out.splitlines() if "->" in x))[0]
    for command in ("show", "diff", "undo"):
        line = next(x for x in tenfold.run_ok(command, "last").out.splitlines() if PAIR.search(x))
        assert PAIR.findall(line)[0] == (made[::-1] if command == "undo" else made), command


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    """A session with a model whose tokenizer is not ours."""
    lines = (EXAMPLES / "pricing.claude-code.jsonl").read_text("utf-8")
    file = tmp_path / f"{CLAUDE}.jsonl"
    file.write_text(lines.replace('"model":"scripted"', '"model":"claude-sonnet-4-5"'), "utf-8")
    assert "claude-sonnet-4-5" in file.read_text("utf-8")
    return file


def test_show_prints_the_whole_view_and_brief_a_timeline(tenfold: Cli, tmp_path: Path) -> None:
    long = "\n".join(f"line {number} of the answer" for number in range(2_000))
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    messages = [
        {"role": "user", "content": "Read a.py."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": long},
    ]
    tenfold.run_ok("import", write_messages(tmp_path / "s.json", messages))
    whole = tenfold.run_ok("show").out
    assert long in whole
    assert '[call read {"path": "a.py"}]' in whole
    assert [row["text"] for row in tenfold.run_json("show")["timeline"]][2] == long
    brief = tenfold.run_ok("show", "--brief").out
    assert "line 9 of the answer" in brief
    assert "line 1999" not in brief


def test_find_lists_each_session_once_with_size_messages_age_and_a_title(
    tenfold: Cli, home: Path, claude: Path, typed: Callable[..., list[str]]
) -> None:
    places = {
        f".claude/projects/-shop/{CLAUDE}.jsonl": claude,
        ".codex/sessions/2026/11/24/rollout-2026-11-24-4f1e.jsonl": EXAMPLES / "tracker.codex.jsonl",
        ".pi/agent/sessions/--logs--/2026-11-24_4f1e.jsonl": EXAMPLES / "logs.pi.jsonl",
    }
    for place, example in places.items():
        (home / place).parent.mkdir(parents=True)
        shutil.copyfile(example, home / place)
    document = {
        "sessionId": "5e5510b0-77a4-4a0c-9be4-2e0a5c1b1f01",
        "projectHash": "p",
        "messages": [
            {"id": "1", "type": "user", "content": [{"text": "Count the quokkas."}]},
            {"id": "2", "type": "gemini", "content": "3"},
        ],
    }
    for number in (1, 2):  # gemini-cli goes on in another file with the same id
        file = home / f".gemini/tmp/p/chats/session-2026-11-24T0{number}-5e5510b0.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document), "utf-8")
    found = tenfold.run_ok("find", "--json").objects
    assert len(found) == 4
    assert len({(each["client"], each["id"]) for each in found}) == 4
    for each in found:
        made = tenfold.run_json("compact", each["id"], "--to", "90%", "--store", ":memory:")
        assert each["messages"] == made["messages_before"], each["client"]
        assert each["bytes"] == Path(each["path"]).stat().st_size
    titles = {each["client"]: each["title"] for each in found}
    assert titles["gemini-cli"] == "Count the quokkas."
    assert titles["codex"].startswith("I want to tidy up this task tracker")
    lines = typed("find", width=60)
    assert max(map(len, lines)) <= 60
    assert len(lines) == 2 + 4
    assert [row.split()[0] for row in lines[2:]].count("gemini-cli") == 1


def test_a_title_is_what_the_user_said_and_not_what_a_client_wrote(tenfold: Cli, home: Path) -> None:
    def write(number: int, **fields: object) -> str:
        parent = f"00000000-0000-4000-8000-00000000000{number - 1}" if number > 1 else None
        own = {"uuid": f"00000000-0000-4000-8000-00000000000{number}", "parentUuid": parent, "sessionId": CLAUDE}
        return json.dumps({"type": "user", "timestamp": "2026-11-24T10:00:00Z", **own, **fields})

    file = home / f".claude/projects/-shop/{CLAUDE}.jsonl"
    file.parent.mkdir(parents=True)
    noise = "Caveat: The messages below were generated by the user while running local commands."
    lines = [
        json.dumps(
            {"type": "summary", "summary": "Another session", "leafUuid": "11111111-0000-4000-8000-000000000000"}
        ),
        write(1, isMeta=True, message={"role": "user", "content": noise}),
        write(2, message={"role": "user", "content": "<command-name>/clear</command-name>"}),
        write(3, message={"role": "user", "content": "Mend the parser."}),
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    assert tenfold.run_ok("find", "--json").objects[0]["title"] == "Mend the parser."
    own = json.dumps({"type": "summary", "summary": "Parser", "leafUuid": "00000000-0000-4000-8000-000000000003"})
    file.write_text("\n".join([own, *lines]) + "\n", "utf-8")
    assert tenfold.run_ok("find", "--json").objects[0]["title"] == "Parser"


def test_a_target_in_tokens_is_no_share(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    """A twentieth of the session was the least that was taken, so a large session could not be made small enough."""
    long = [{"role": "user", "content": f"{number} " + "word " * 5_000} for number in range(14)]
    file = write_messages(tmp_path / "long.json", [*long, {"role": "user", "content": "Go on."}])
    made = tenfold.run_json("compact", file, "--to", "3000")
    assert made["tokens_before"] > 20 * 3_000
    assert (made["status"], made["target"]) == ("compacted", 3_000)
    slip = tenfold("compact", pi, "--to", "10")
    assert slip.code == 2
    assert "--to 10%" in slip.err


@pytest.mark.parametrize("command", [("import",), ("compact", "--to", "5000")])
def test_folders_are_read_to_the_end_and_what_gave_no_session_is_named(
    command: tuple[str, ...], tenfold: Cli, tmp_path: Path
) -> None:
    """An import ended at the first empty file, and what came behind it was not stored."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.json", "z.json"):
        write_messages(folder / name, [{"role": "user", "content": f"Count {name}."}])
    (folder / "settings.json").write_text('{"theme": "dark"}', "utf-8")
    ran = tenfold.run_ok(*command, folder)
    assert "skipped: " in ran.err
    assert "settings.json" in ran.err
    assert ran.out.splitlines()[-1].startswith("2 sessions ")
    assert ran.out.splitlines()[-1].endswith("; 1 file left out")
    (folder / "empty.json").touch()
    ran = tenfold(*command, folder)
    assert (ran.code, "empty.json: the file is empty" in ran.err) == (3, True)
    assert ran.out.splitlines()[-1].endswith("; 2 files left out")
    assert len(tenfold.run_ok("sessions", "--json").objects) == 2
    (folder / "a.json").unlink()
    (folder / "z.json").unlink()
    assert "0 sessions" in tenfold(*command, folder).out, "where no file is a session, that is said"
    ran = tenfold(*command, folder / "empty.json", folder / "settings.json")
    assert (ran.code, ran.err.count("tenfold: ")) == (3, 2), "what was named is a fault each"


@pytest.mark.parametrize("command", ["show", "rules", "export", "diff", "undo"])
def test_the_newest_session_is_meant_where_none_is_named(command: str, tenfold: Cli, tmp_path: Path) -> None:
    messages = [{"role": role, "content": f"{role} says {n} " * 90} for n in range(9) for role in ("user", "assistant")]
    tenfold.run_ok("compact", write_messages(tmp_path / "s.json", messages), "--to", "30%")
    assert tenfold.run_ok(command).out.strip()
    assert "no session has an id that begins with 'nope'" in tenfold(command, "nope").err


def test_an_earlier_compaction_in_force_is_named_where_nothing_is_done(tenfold: Cli, tmp_path: Path) -> None:
    messages = [{"role": role, "content": f"{role} says {n} " * 90} for n in range(9) for role in ("user", "assistant")]
    file = write_messages(tmp_path / "s.json", messages)
    tenfold.run_ok("compact", file, "--to", "30%")
    assert "--fresh begins with the originals" in tenfold.run_ok("compact", file, "--to", "60%").out
    assert "compacted: " in tenfold.run_ok("compact", file, "--to", "60%", "--fresh").out


def test_a_stream_that_was_closed_before_takes_everything() -> None:
    line = f"{shlex.quote(sys.executable)} -m tenfold --version >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 0


def test_a_session_of_run_is_exported_and_nothing_advertises(tenfold: Cli, tmp_path: Path) -> None:
    """In a terminal, since that is where a library greets its users."""
    (tmp_path / "a.txt").write_text("a price", "utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "CI"))} | {
        "TENFOLD_STORE": str(tenfold.store)
    }
    words = ["run", "--task", "price", "--model", "demonstration", "--folder", str(tmp_path)]
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb") as screen:
        ran = subprocess.run(
            [sys.executable, "-m", "tenfold", *words], env=env, stdout=subprocess.PIPE, stderr=screen, check=False
        )
    with os.fdopen(ours, "rb", buffering=0) as seen:
        try:
            said = seen.read(65_536)
        except OSError:  # the other end is closed, and nothing was left
            said = b""
    assert ran.returncode == 0
    shown = strip_controls(said.decode()).replace("\r", "").replace("\n", "")
    assert shown.startswith(f"store: {tenfold.store}demonstration begins session ")
    assert "://" not in shown
    exported = tenfold.run_ok("export", "last")
    assert json.loads(exported.out)[0] == {"role": "user", "content": "price"}
    assert "openai-chat" in exported.err


def test_the_words_of_the_code_are_not_the_users(tenfold: Cli, claude: Path) -> None:
    printed = [tenfold.run_ok("compact", claude, "--to", "10%").out]
    printed += [tenfold.run_ok(command).out for command in ("show", "diff")]
    printed.append(tenfold.run_ok("compact", claude, "--to", "8%", "--preview").out)
    for text in printed:
        heading = text.partition("<tenfold-summary")[0]
        assert not re.search(r"\brung\b|floor \d|\bextractive\b", heading)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("compact", "x", "--polcy", "tail"), "Did you mean --policy?"),
        (("serch", "x"), "'serve'? See `tenfold --help`"),
        (("compact", "x", "--to"), "requires an argument; see `tenfold compact --help`"),
        (("compact", "last"), "is named by its file"),
        (("find", "--here"), "no session ran in this folder"),
        (("export", "last", "--veiw"), "Did you mean --view?"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(line: tuple[str, ...], said: str, tenfold: Cli, home: Path) -> None:
    del home
    assert said in tenfold(*line).err


def test_the_shell_completes_commands_and_options() -> None:
    def complete(words: str) -> list[str]:
        env = os.environ | {
            "_TENFOLD_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        command = [sys.executable, "-c", "from tenfold.apps.cli.main import main; main()"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout.split()

    assert complete("tenfold sal") == ["salvage"]
    assert "--preview" in complete("tenfold compact --pre")
    helped = subprocess.run([sys.executable, "-m", "tenfold", "--help"], capture_output=True, text=True, check=True)
    assert "--install-completion" in helped.stdout


def test_the_version_is_printed_without_loading_the_commands() -> None:
    """Loading all of them took half a second, ten times what typer takes."""
    code = (
        "import sys; from tenfold.apps.cli.main import run; run(['--version']);"
        "print([n for n in sys.modules if n.startswith(('tenfold.', 'rich', 'msgspec', 'asyncio', 'sqlite3'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.splitlines()[1]
    assert (
        loaded
        == "['tenfold.apps', 'tenfold.apps.cli', 'tenfold.apps.cli.process', 'tenfold.errors', 'tenfold.apps.cli.main']"
    )
