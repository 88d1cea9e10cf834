"""Edits of settings files: single keys of JSON and of TOML, with everything else as it was."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit

from tenfold.apps.installer.planned_changes import SettingsEdit
from tenfold.errors import BadInput

Json = dict[str, Any]
_INDENT = re.compile(r"\n([ \t]+)\S")


class JsonValue:
    """One value of a JSON settings file: the keys that lead to it, and what it is."""

    def __init__(self, keys: Sequence[str], value: object) -> None:
        """`value` takes the place of what stands there."""
        self.keys, self.value = tuple(keys), value

    def set_in(self, settings: Json) -> None:
        """Sets the value, and makes the objects on the way to it."""
        at = settings
        for key in self.keys[:-1]:
            inner = at.setdefault(key, {})
            if not isinstance(inner, dict):
                raise BadInput(f"its key {key!r} holds no object, so it is left alone; add yourself:\n{self.render()}")
            at = inner
        at[self.keys[-1]] = self.value

    def remove_from(self, settings: Json) -> None:
        """Removes the value, and the objects on the way to it that are empty then."""
        path = [settings]
        for key in self.keys[:-1]:
            inner = path[-1].get(key)
            if not isinstance(inner, dict):
                return
            path.append(inner)
        if self.keys[-1] not in path[-1]:
            return
        del path[-1][self.keys[-1]]
        for parent, key in zip(reversed(path[:-1]), reversed(self.keys[:-1]), strict=True):
            if not parent[key]:
                del parent[key]

    def render(self) -> str:
        """Returns the lines to add by hand."""
        value: object = self.value
        for key in reversed(self.keys):
            value = {key: value}
        return json.dumps(value, indent=2, ensure_ascii=False)


def build_json_edit(path: Path, values: Sequence[JsonValue]) -> SettingsEdit:
    """Builds the edit of a JSON file that sets some values. The order of keys and the indentation stay.

    A file with comments, or that is no JSON, is refused with the lines to add, since comments would be lost.
    """

    def edit(change: Callable[[JsonValue, Json], None], text: str) -> str:
        settings = _parse_json(text, values)
        before = json.dumps(settings)
        for value in values:
            change(value, settings)
        if json.dumps(settings) == before:
            return text
        return _render_json(settings, text) if settings else ""

    return SettingsEdit(path, partial(edit, JsonValue.set_in), partial(edit, JsonValue.remove_from))


def _parse_json(text: str, values: Sequence[JsonValue]) -> Json:
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError as exc:
        lines = "\n".join(value.render() for value in values)
        raise BadInput(
            f"it has comments or is no JSON ({exc}), and rewriting it would lose them, so it is left alone; the keys "
            f"are, to be added or removed by hand:\n{lines}"
        ) from exc
    if not isinstance(settings, dict):
        raise BadInput("it holds no JSON object, so it is left alone")
    return settings


def _render_json(settings: Json, like: str) -> str:
    found = _INDENT.search(like)
    indent: str | int = found[1] if found is not None else 2
    text = json.dumps(settings, indent=indent, ensure_ascii=False) + ("" if like and not like.endswith("\n") else "\n")
    return text.replace("\n", "\r\n") if "\r\n" in like else text


def build_toml_edit(path: Path, table: tuple[str, str], values: Mapping[str, Any]) -> SettingsEdit:
    """Builds the edit of a TOML file that sets some keys of a table in a table. Comments and layout stay.

    A file that is no TOML, or that is written so that nothing else can be kept, is refused with the lines to add.
    """
    outer, inner = table
    lines = f"[{outer}.{inner}]\n{tomlkit.dumps(dict(values))}"

    def parse(text: str) -> Json:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise BadInput(f"it is no TOML ({exc}), so it is left alone; the lines are:\n{lines}") from exc

    def add(text: str) -> str:
        settings = parse(text)
        tables = settings.setdefault(outer, {})
        own = tables.setdefault(inner, {}) if isinstance(tables, dict) else None
        if not isinstance(own, dict):
            raise BadInput(f"its key {outer!r} holds something else, so it is left alone; the lines are:\n{lines}")
        if {**own, **values} == own:
            return text
        if own:
            own.update(values)
            return _check_toml(_set_toml_keys(text, table, values), settings, lines)
        own.update(values)
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = newline * (2 - text.endswith("\n")) if text else ""
        return _check_toml(text + gap + lines.replace("\n", newline), settings, lines)

    def remove(text: str) -> str:
        settings = parse(text)
        tables = settings.get(outer)
        if not isinstance(tables, dict) or inner not in tables:
            return text
        del tables[inner]
        if not tables:
            del settings[outer]
        return _check_toml(_remove_toml_table(text, table), settings, lines)

    return SettingsEdit(path, add, remove)


def _check_toml(text: str, expected: Json, lines: str) -> str:
    """Returns the text if it means what is expected. Raises `BadInput` if it does not."""
    try:
        if tomllib.loads(text) == expected:
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise BadInput(f"it is written so that nothing can be changed safely, so it is left alone; the lines are:\n{lines}")


def _set_toml_keys(text: str, table: tuple[str, str], values: Mapping[str, Any]) -> str:
    document: Any = tomlkit.parse(text)
    for key, value in values.items():
        document[table[0]][table[1]][key] = value
    return tomlkit.dumps(document)


def _remove_toml_table(text: str, table: tuple[str, str]) -> str:
    document: Any = tomlkit.parse(text)
    del document[table[0]][table[1]]
    if not document[table[0]]:
        del document[table[0]]
    return tomlkit.dumps(document)
