"""Edits of TOML and JSON in every layout: the one value is set and all else stays, or the file is refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tenfold.apps.installer.settings_edits import JsonValue, build_json_edit, build_toml_edit
from tenfold.errors import BadInput

VALUES = {"command": "py", "args": ["-m", "x"]}
TOML = build_toml_edit(Path("x.toml"), ("mcp_servers", "tenfold"), VALUES)
JSON = build_json_edit(Path("x.json"), [JsonValue(("mcp", "tenfold"), VALUES)])
LAYOUTS = {
    "dotted": 'mcp_servers.a.command = "x"\nmodel = "m"\n[tui]\nx = 1\n',
    "out of order": '[mcp_servers.a]\ncommand = "x"\n[tui]\nx = 1\n[mcp_servers.b]\ncommand = "y" # c\n',
    "above": '[mcp_servers]\n[mcp_servers.a]\ncommand = "x"\n',
    "no end of line": 'model = "m"',
    "of Windows": 'model = "m" # c\r\n[tui]\r\nx = 1\r\n',
    "our own, inline": '[mcp_servers]\ntenfold = { command = "old", args = [] } # c\n',
    "our own, before others": '[mcp_servers.tenfold]\ncommand = "old"\nenabled = true\n\n[tui] # c\nx = 1\n',
    "arrays of tables": "[[profiles]]\na = 1\n[[profiles]]\na = 2\n",
    "nothing": "",
    "a comment": "# only\n",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_toml_keeps_what_is_not_ours(text: str) -> None:
    added = TOML.add(text)
    before, now = tomllib.loads(text), tomllib.loads(added)
    own = before.get("mcp_servers", {}).pop("tenfold", {})
    assert now["mcp_servers"].pop("tenfold") == own | VALUES
    assert now["mcp_servers"] == before.pop("mcp_servers", {})
    del now["mcp_servers"]
    assert now == before
    assert TOML.add(added) == added
    assert own or added.startswith(text)
    assert added.count("#") == text.count("#")
    assert ("\r\n" in text) == ("\r\n" in added)
    removed = TOML.remove(added)
    assert "tenfold" not in removed
    assert TOML.remove(removed) == removed


@pytest.mark.parametrize(
    "text",
    ['mcp_servers = { a = { command = "x" } }\n', "mcp_servers = 3\n", "[mcp_servers]\ntenfold = 3\n", "model = "],
)
def test_toml_that_cannot_take_it_is_refused_with_the_lines(text: str) -> None:
    with pytest.raises(BadInput, match=r"\[mcp_servers\.tenfold\]\ncommand = \"py\""):
        TOML.add(text)


@pytest.mark.parametrize(
    "text",
    ["{}", '{\n\t"a": 1.5,\n\t"mcp": {"x": {}}\n}\n', '{"é": "ü", "mcp": {}}', '{\r\n    "a": null\r\n}\r\n', " \n"],
)  # fmt: skip
def test_json_keeps_what_is_not_ours(text: str) -> None:
    added = JSON.add(text)
    before, now = json.loads(text if text.strip() else "{}"), json.loads(added)
    assert now["mcp"].pop("tenfold") == VALUES
    assert {"mcp": {}} | before == now
    assert JSON.add(added) == added
    assert ("\r\n" in text) == ("\r\n" in added)
    assert ("\t" in text) == ("\t" in added)
    assert "\\u" not in added
    assert "tenfold" not in JSON.remove(added)


@pytest.mark.parametrize("text", ['{"mcp": 3}', '{"a": 1} // c', "[]"])
def test_json_that_cannot_take_it_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="left alone"):
        JSON.add(text)
