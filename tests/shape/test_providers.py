"""What is known of a provider stands in its folder: the gateway serves every wire and names none."""

from __future__ import annotations

import ast

from tenfold.core.wire import WIRES
from tests.shape import scan

GATEWAY = "src/tenfold/apps/gateway"


def test_the_gateway_names_no_wire() -> None:
    named = [
        f"{scan.get_relative_name(path)}:{node.lineno} {node.value!r}"
        for path in scan.list_python_files(GATEWAY)
        for node in ast.walk(scan.parse_file(path))
        if isinstance(node, ast.Constant) and node.value in WIRES
    ]
    assert scan.list_python_files(GATEWAY)
    assert named == []


def test_no_app_imports_a_provider() -> None:
    folders = {f"tenfold.core.wire.{name.replace('-', '_')}" for name in WIRES}
    imported = [
        f"{scan.get_relative_name(path)}:{node.lineno} {node.module}"
        for path in scan.list_python_files("src/tenfold/apps")
        for node in ast.walk(scan.parse_file(path))
        if isinstance(node, ast.ImportFrom) and any((node.module or "").startswith(folder) for folder in folders)
    ]
    assert imported == []


def test_each_provider_is_one_folder_with_all_four_parts() -> None:
    for name, wire in WIRES.items():
        folder = scan.ROOT / "src/tenfold/core/wire" / name.replace("-", "_")
        assert {path.name for path in folder.glob("*.py")} == {"__init__.py", "api.py", "messages.py", "profile.py"}
        assert wire.api is not None
        assert wire.api.stream is not None
