"""No pattern of the package takes more than proportional time on runs of one character or pair."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_work_of_every_pattern_grows_as_the_text_does() -> None:
    program = Path(__file__).with_name("pattern_growth.py")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=500, check=True)
    assert ran.stdout == ""
    assert int(ran.stderr.split()[0]) > 500, "the patterns are looked for where they are"
