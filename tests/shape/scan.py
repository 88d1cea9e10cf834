"""Reads the source as syntax trees for the shape tests. Knows nothing of what the code does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BROAD = {"Exception", "BaseException"}


class Place(NamedTuple):
    """Where something stands, and what it is: `file` relative to the root."""

    file: str
    line: int
    what: str


def list_python_files(folder: str) -> list[Path]:
    """The Python files below `folder`, in a stable order."""
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


@cache
def parse_file(path: Path) -> ast.Module:
    """The parsed file. Kept until the tests of this folder are over."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def get_relative_name(path: Path) -> str:
    """The path relative to the root, with forward slashes."""
    return path.relative_to(ROOT).as_posix()


def iterate_functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods, nested ones included."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def count_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the last statement, docstring included."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def find_broad_excepts(module: ast.Module, file: str) -> list[Place]:
    """Bare `except:`, and handlers that name Exception or BaseException, alone or in a tuple.

    One that ends by raising the same error again swallows nothing and is not counted.
    """
    out = []
    for owner, node in _walk_with_owner(module):
        if isinstance(node, ast.ExceptHandler) and not _is_reraising(node):
            names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else BROAD
            if names & BROAD:
                out.append(Place(file, node.lineno, owner))
    return out


def find_patches(module: ast.Module, file: str) -> list[Place]:
    """Mocks and patched attributes: unittest.mock, pytest-mock's `mocker`, `monkeypatch.setattr` and `setitem`."""
    out = []
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names) if any(alias.name.startswith("unittest.mock") for alias in names):
                out.append(Place(file, node.lineno, "unittest.mock"))
            case ast.ImportFrom(module="unittest.mock"):
                out.append(Place(file, node.lineno, "unittest.mock"))
            case ast.ImportFrom(module="unittest", names=names) if any(alias.name == "mock" for alias in names):
                out.append(Place(file, node.lineno, "unittest.mock"))
            case ast.Attribute(value=ast.Name(id="monkeypatch"), attr="setattr" | "setitem" | "delattr"):
                out.append(Place(file, node.lineno, f"monkeypatch.{node.attr}"))
            case ast.Attribute(value=ast.Name(id="mocker")):
                out.append(Place(file, node.lineno, f"mocker.{node.attr}"))
            case _:
                pass
    return out


def _is_reraising(node: ast.ExceptHandler) -> bool:
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _walk_with_owner(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    stack: list[tuple[str, ast.AST]] = [("<module>", module)]
    while stack:
        owner, node = stack.pop()
        yield owner, node
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else owner
        stack.extend((inner, child) for child in ast.iter_child_nodes(node))
