"""The page of the peers names each of them, with the version that is pinned."""

from __future__ import annotations

import re

from tenfold_yardstick.peers import PEERS, WORKERS
from tests.shape.scan import ROOT

TEXT = (ROOT / "docs" / "peers.md").read_text("utf-8")
ROW = re.compile(r"^\| `([\w-]+)/([\w-]+)` \| (?:([\w-]+) ([\d.]+)[^|]*)?\| [^|]*\|[^|]*\|$", re.MULTILINE)
"""A method; in the first row of each project also its distribution with the version."""


def read_pins(worker: str) -> dict[str, str]:
    """What a peer's environment is made of, by the names that the package index gives."""
    lines = (WORKERS / worker / "requirements.txt").read_text("utf-8").splitlines()
    pairs = [line.partition("==")[::2] for line in lines if "==" in line]
    return {name.replace("_", "-"): version for name, version in pairs}


def test_every_peer_has_its_row() -> None:
    rows = [f"{worker}/{method}" for worker, method, *_ in ROW.findall(TEXT)]
    assert sorted(rows) == sorted(peer.name for peer in PEERS)


def test_the_versions_are_those_that_are_pinned() -> None:
    told = {worker: (name, version) for worker, _, name, version in ROW.findall(TEXT) if name}
    assert set(told) == {peer.worker for peer in PEERS}
    assert {w: version for w, (_, version) in told.items()} == {w: read_pins(w)[name] for w, (name, _) in told.items()}
