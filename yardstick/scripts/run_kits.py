"""Runs the public kits that are installed in .kits against Tenfold and prints their figures; --write also saves them.

`KITS="conpact tracegc"` selects some of them. Nothing here needs a network, and a run refuses every connection.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.figures import describe_measurement
from tenfold_yardstick.peers import build_environment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kits.md"


def run_kit(name: str, root: Path = ROOT) -> str:
    """Returns what a kit's run prints, or why there is no run. The output of its libraries is shown if the run fails.

    Like the peers, it runs with an empty home and none of the user's keys.
    """
    python = root / ".kits" / name / "bin" / "python"
    if not python.exists():
        failed = root / ".kits" / f"{name}.failed"
        return f"left out: {failed.read_text('utf-8').strip() if failed.exists() else 'it is not installed'}\n"
    path = os.pathsep.join(str(root / part) for part in ("src", "yardstick/src", "yardstick/kits/common"))
    command = [str(python), "-W", "ignore", str(root / "yardstick" / "kits" / name / "run.py")]
    with TemporaryDirectory(prefix="tenfold-kit-") as home:
        env = build_environment(Path(home)) | {"PYTHONPATH": path}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=env)
    if ran.returncode:
        sys.exit(ran.stderr)
    return ran.stdout


def main() -> None:
    """Runs one kit after the other."""
    names = os.environ.get("KITS", "").split() or sorted(
        p.parent.name for p in ROOT.glob("yardstick/kits/*/requirements.txt")
    )
    page = PAGE.read_text("utf-8")
    for name in names:
        found = run_kit(name)
        print(f"\n## {name}\n\n{found}", flush=True)
        text = f"{describe_measurement()} {found}"
        block = rf"(?<=<!-- figures: {re.escape(name)} -->\n).*?(?=<!-- end -->)"
        page = text.join(re.split(block, page, maxsplit=1, flags=re.DOTALL))
    if "--write" in sys.argv:
        PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
