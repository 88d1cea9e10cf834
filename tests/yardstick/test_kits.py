"""The public kits: pinned, named on their page with figures, run offline. `make kits` runs the kits themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.shape.scan import ROOT
from tests.yardstick.chats import make_long_past
from yardstick.scripts.run_kits import run_kit

KITS = sorted(path.parent.name for path in ROOT.glob("yardstick/kits/*/requirements.txt"))
PAGE = (ROOT / "docs" / "kits.md").read_text("utf-8")


def find_imported_packages() -> set[str]:
    """Returns the packages that a program needs which imports Tenfold: all that it depends on, but for the command."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = {re.split(r"[<>=; ]", each)[0] for each in declared}
    assert names > {"typer", "rich"}
    return names - {"typer", "rich"}


@pytest.mark.parametrize("name", KITS)
def test_each_is_pinned_and_has_its_figures_on_the_page(name: str) -> None:
    pins = (ROOT / "yardstick" / "kits" / name / "requirements.txt").read_text("utf-8").splitlines()
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+]+", pin)] == []
    assert find_imported_packages() <= {pin.partition("==")[0].lower() for pin in pins}, "what Tenfold needs"
    assert (ROOT / "yardstick" / "kits" / name / "run.py").is_file()
    figures = re.search(rf"<!-- figures: {name} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert figures is not None
    assert re.match(r"Measured on \d{4}-\d\d-\d\d at commit [0-9a-f]{7,40}\b", figures[1])
    rows = [line for line in figures[1].splitlines() if line.startswith("| ")]
    assert any("tenfold" in row for row in rows)
    assert any("tenfold" not in row for row in rows[1:]), "there is something to compare it with"


def test_there_are_four() -> None:
    assert len(KITS) == 4


def test_a_kit_sees_no_key_and_no_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    for folder in ("yardstick/kits/fake", ".kits/fake/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".kits/fake/bin/python").symlink_to(sys.executable)
    script = "import json, os; print(json.dumps([dict(os.environ), os.listdir(os.environ['HOME'])]))"
    (tmp_path / "yardstick/kits/fake/run.py").write_text(script)
    seen, stored = json.loads(run_kit("fake", tmp_path))
    assert "OPENAI_API_KEY" not in seen
    assert seen["HOME"] != os.environ.get("HOME")
    assert not Path(seen["HOME"]).exists(), "it is gone with the run"
    assert stored == []
    assert seen["DO_NOT_TRACK"] == "1"


PROBE = """
import json, socket, sys
from offline import find_largest, go_offline
go_offline()
for ask in (lambda: socket.create_connection(("127.0.0.1", 9)), lambda: socket.getaddrinfo("pypi.org", 443)):
    try:
        ask()
    except OSError as exc:
        assert "kits run offline" in str(exc), exc
    else:
        raise AssertionError("a connection was made")
past = json.load(sys.stdin)
made = find_largest(past, 3_000, lambda view: len(view) < 30)
assert made is not None and 0 < len(made) < 30
assert "legacy_config.toml" in json.dumps(made)
assert find_largest(past, 3_000, lambda view: False) is None
"""


def test_a_run_makes_no_connection_and_takes_the_largest_view_that_fits() -> None:
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "yardstick/kits/common"))
    env = {**os.environ, "PYTHONPATH": path}
    given = json.dumps(make_long_past())
    subprocess.run([sys.executable, "-c", PROBE], input=given, text=True, check=True, env=env, timeout=500)
