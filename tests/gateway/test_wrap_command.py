"""`tenfold wrap` runs a program in the foreground: its output, its exit code and its signals are the program's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.serving import build_script
from tests.models.loopback import Loopback
from tests.shape.scan import ROOT

SECRET = "only-for-this-server"  # noqa: S105 - it opens nothing
CALL = """
import json, os, sys, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
said = {"role": "assistant", "content": "Yes."}
list = [{"role": "user", "content": "hi"}, said, {"role": "user", "content": "go on"}]
body = json.dumps({"model": "gpt-4o", "messages": list}).encode()
head = {"authorization": "Bearer only-for-this-server", "content-type": "application/json"}
print(urllib.request.urlopen(urllib.request.Request(url, body, head)).status, sys.stdin.read())
sys.exit(7)
"""


def build_environment(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TENFOLD_STORE": str(tmp_path / "store.db")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **more}


def wrap(tmp_path: Path, *words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tenfold", "wrap", *words]
    env = build_environment(tmp_path, **more)
    return subprocess.run(command, env=env, cwd=tmp_path, input=given, capture_output=True, text=True, check=False)


def test_a_program_has_its_input_its_output_and_its_exit_code(tmp_path: Path) -> None:
    with Loopback(script=build_script()) as upstream:
        base = f"{upstream.url}/v1"
        ran = wrap(tmp_path, sys.executable, "-c", CALL, given="typed", OPENAI_BASE_URL=base)
    assert ran.returncode == 7, ran.stderr
    assert ran.stdout == "200 typed\n"
    line = ran.stderr.splitlines()[-1]
    assert line.startswith("tenfold: 1 request; 0 compactions; 0 of ")
    assert "inspect it: tenfold show gateway-" in line
    assert len(upstream.requests) == 1
    assert upstream.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_the_log_is_a_file_without_secrets_and_the_session_can_be_shown(tmp_path: Path) -> None:
    with Loopback(script=build_script()) as upstream:
        ran = wrap(tmp_path, sys.executable, "-c", CALL, OPENAI_BASE_URL=f"{upstream.url}/v1")
    log = (tmp_path / "wrap.log").read_text("utf-8")
    assert "openai-chat gpt-4o; status 200" in log
    assert SECRET not in log + ran.stderr
    session = ran.stderr.split("tenfold show ")[-1].strip()
    command = [sys.executable, "-m", "tenfold", "show", session]
    shown = subprocess.run(command, env=build_environment(tmp_path), capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert "go on" in shown.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_the_log_is_the_users_alone_and_the_key_is_the_gateways(tmp_path: Path) -> None:
    """Also a log of an earlier version. The key would open whatever else listens with it."""
    show = "import json, os; print(json.dumps([k for k, v in os.environ.items() if 'key-of-a-gateway' in v]))"
    (tmp_path / "wrap.log").write_text("earlier\n")
    (tmp_path / "wrap.log.1").write_text("earlier still\n")
    for path in tmp_path.glob("wrap.log*"):
        path.chmod(0o644)
    with Loopback(script=build_script()) as upstream:
        told = {"OPENAI_BASE_URL": f"{upstream.url}/v1", "TENFOLD_GATEWAY_KEY": "key-of-a-gateway"}
        ran = wrap(tmp_path, sys.executable, "-c", f"{show}\n{CALL}", **told)
    assert ran.stdout.splitlines()[0] == "[]"
    assert ran.stdout.splitlines()[1].startswith("200"), "the gateway of the command needs no key"
    assert len(list(tmp_path.glob("wrap.log*"))) == 2
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("wrap.log*")} == {0o600}
    assert (tmp_path / "wrap.log").read_text("utf-8").startswith("earlier\n")


def test_a_shadow_says_what_would_have_been(tmp_path: Path) -> None:
    with Loopback(script=build_script()) as upstream:
        ran = wrap(tmp_path, "--shadow", sys.executable, "-c", CALL, OPENAI_BASE_URL=f"{upstream.url}/v1")
    line = ran.stderr.splitlines()[-1]
    assert line.startswith("tenfold: shadow, nothing was changed; 1 request; 0 compactions; 0 of ")
    assert " input tokens would have been saved (0%)" in line
    assert "; shadow, forwarded as it came, would have been; tokens " in (tmp_path / "wrap.log").read_text("utf-8")


def test_options_of_the_program_are_its_own(tmp_path: Path) -> None:
    ran = wrap(
        tmp_path, "--window", "16000", sys.executable, "-c", "import sys; print(sys.argv)", "--window", "5", "-h"
    )
    assert ran.stdout == "['-c', '--window', '5', '-h']\n"
    assert "no request came through the gateway" in ran.stderr
    assert "run `tenfold serve --upstream URL`" in ran.stderr


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    ran = wrap(tmp_path, "no-such-agent")
    assert ran.returncode == 2
    assert "there is no program 'no-such-agent'" in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_program(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    command = [sys.executable, "-m", "tenfold", "wrap", sys.executable, "-c", code]
    with subprocess.Popen(
        command, env=build_environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) == 9


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_program_that_a_signal_ends_has_the_code_of_a_shell(tmp_path: Path) -> None:
    assert wrap(tmp_path, sys.executable, "-c", "import os; os.kill(os.getpid(), 15)").returncode == 128 + 15
