"""Ctrl-C while a model does not answer: the command leaves at once, says so, and leaves no Block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.models.loopback import Loopback, Served

PROGRAM = (sys.executable, "-m", "tenfold")


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", ["tenfold", "tail", "clip"])
def test_an_interrupt_while_a_model_hangs_leaves_no_block(tenfold: Cli, pi: Path, policy: str) -> None:
    with Loopback(Served(hang=600)) as loopback:
        given = ("--model", "openai:gpt-4o-mini", "--base-url", f"{loopback.url}/v1", "--to", "10%", "--policy", policy)
        env = os.environ | {"TENFOLD_STORE": str(tenfold.store), "OPENAI_API_KEY": "none"}
        with subprocess.Popen(
            [*PROGRAM, "compact", str(pi), *given], env=env, stderr=subprocess.PIPE, text=True
        ) as ran:
            while not loopback.requests and ran.poll() is None:
                time.sleep(0.02)
            ran.send_signal(signal.SIGINT)
            _, err = ran.communicate(timeout=500)
    assert ran.returncode == 130
    assert "interrupted; everything stored before is kept" in err
    assert tenfold.run_json("show", "last")["blocks"] == []
    tenfold.run_ok("verify")
