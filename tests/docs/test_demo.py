"""`make demo` runs to its end and keeps what it says: it fails itself when a claim does not hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.shape.scan import ROOT


def test_the_demo_holds_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    env = os.environ | {"TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "TENFOLD_STORE": str(tmp_path / "own.db")}
    script = ROOT / "examples" / "demo.py"
    ran = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=False, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert ran.stdout.count("the view it was before: yes") == len(
        list((ROOT / "examples" / "sessions").glob("*.json*"))
    )
    assert "60 of 60" in ran.stdout, "the agent came through behind the gateway"
    assert "is found by search: yes" in ran.stdout
    assert list(tmp_path.iterdir()) == []
