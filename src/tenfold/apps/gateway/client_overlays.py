"""Tells a client other addresses for one run: reads its configuration, and hands it variables, options or a copy."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from tenfold.apps.clients.wrapped_clients import (
    OTHER_VARIABLES,
    STANDARD_VARIABLES,
    DefaultAddress,
    WrappedClient,
    find_wrapped_client,
    list_addresses,
    list_members,
)
from tenfold.apps.gateway.gateway_routes import GatewayRoutes
from tenfold.apps.gateway.gateway_settings import KEY_VARIABLE
from tenfold.errors import BadInput, UsageError

_COMMENT = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)
"""A text of JSON, or what its relatives have besides: comments, and a comma before an end."""
_ADDRESS = r"(https?://[^\s\"']+)"
_NAMED_ADDRESS = re.compile(rf"^(.*(?:base[-_]?url|api[-_]?base)[\"']?\s*=\s*[\"']?){_ADDRESS}([\"']?)$", re.IGNORECASE)
_ADDRESS_OPTION = re.compile(r"^--?[\w.-]*(?:base[-_]?url|api[-_]?base)$", re.IGNORECASE)
_COPIES = ("folder", "file variable", "file option")
Place = tuple[str | int, ...]


class ClientRun(Struct, frozen=True):
    """How a client is run: its command line and its whole environment."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


@contextmanager
def overlay_client(
    command: Sequence[str], routes: GatewayRoutes, *, environ: Mapping[str, str], folder: Path
) -> Iterator[ClientRun]:
    """Prepares a command line whose client then uses the addresses of `routes`, and cleans up at the end.

    `environ` and `folder` are the environment and the folder that the command is run with. What the client writes
    beside its copied configuration is moved to where it would have been written. Raises `BadInput` for a configuration
    that cannot be read.

        with overlay_client(["pi", "-c"], routes, environ=os.environ, folder=Path.cwd()) as run:
            subprocess.run(run.command, env=run.environ)
    """
    environ = {name: value for name, value in environ.items() if name != KEY_VARIABLE}  # it opens other gateways
    client, count = find_wrapped_client(command)
    own = client.variables if client is not None else {}
    variables = {**{name: own[name] for name in own if name not in environ}, **route_variables(environ, routes)}
    arguments = _route_arguments(command[count:], routes)
    if client is None or client.delivery is None:
        yield ClientRun((*command[:count], *arguments), {**environ, **variables})
        return
    source = _ConfigSource(client, environ, folder, arguments)
    document, changes = _route_document(client, source, routes)
    if not changes:
        yield ClientRun((*command[:count], *arguments), {**environ, **variables})
        return
    named = {".".join(map(str, at)): url for at, url in changes.items()}
    variables |= {client.place_variables[place]: named[place] for place in named if place in client.place_variables}
    with tempfile.TemporaryDirectory(prefix="tenfold-wrap-", ignore_cleanup_errors=True) as temporary:
        place = Path(temporary)
        text = _write_document(source, document, changes) if client.delivery in _COPIES else ""
        options: tuple[str, ...] = ()
        match client.delivery:
            case "folder":
                for name in client.state:  # else its sessions would be gone with the copy if this process is killed
                    (source.folder / name).mkdir(parents=True, exist_ok=True)
                _link_folder(source.folder, place, source.path.name)
                _write_private(place / source.path.name, text)
                variables[client.handle[0]] = temporary
            case "file variable":
                variables[client.handle[0]] = _write_private(place / source.path.name, text)
            case "file option":
                arguments = source.drop_option(arguments, client.handle[0])
                options = (client.handle[0], _write_private(place / source.path.name, text))
            case "text variable":
                variables[client.handle[0]] = json.dumps(_build_partial(changes, source.content))
            case "text option":
                options = (client.handle[0], json.dumps(_build_partial(changes, {})))
            case "pairs":
                options = tuple(
                    part.format(key=".".join(map(str, at)), value=url, json=json.dumps(url))
                    for at, url in changes.items()
                    for part in client.handle
                )
        try:
            yield ClientRun((*command[:count], *options, *arguments), {**environ, **variables})
        finally:
            if client.delivery == "folder":
                _restore_files(place, source.folder, source.path.name)


def route_variables(environ: Mapping[str, str], routes: GatewayRoutes) -> dict[str, str]:
    """Returns the variables that hold base URLs, with the addresses of `routes`.

    A variable that is set keeps its meaning: its address becomes an upstream. The standard ones are always set.
    """
    out: dict[str, str] = {}
    for variable in STANDARD_VARIABLES:
        names = (variable.name, *variable.others)
        first = next((environ[name] for name in names if environ.get(name)), "")
        default = routes.route_address(first) if first else routes.route_default() + variable.suffix
        out[variable.name] = default
        out |= {name: routes.route_address(environ[name]) for name in names if environ.get(name)}
    out |= {name: routes.route_address(environ[name]) for name in OTHER_VARIABLES if environ.get(name)}
    if any(environ.get(name) for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")):
        for name in ("no_proxy", "NO_PROXY"):
            out[name] = ",".join(filter(None, (environ.get(name), "127.0.0.1")))
    return out


def _route_arguments(arguments: Sequence[str], routes: GatewayRoutes) -> tuple[str, ...]:
    """Returns a client's arguments with other addresses in its options for them."""
    out: list[str] = []
    for word in arguments:
        named = _NAMED_ADDRESS.match(word)
        if named is not None:
            out.append(named[1] + routes.route_address(named[2]) + named[3])
        elif out and _ADDRESS_OPTION.match(out[-1]) and re.fullmatch(_ADDRESS, word):
            out.append(routes.route_address(word))
        else:
            out.append(word)
    return tuple(out)


class _ConfigSource:
    """A client's own configuration: the files that exist, and the text of a variable. Nothing of it is written."""

    def __init__(
        self, client: WrappedClient, environ: Mapping[str, str], folder: Path, arguments: Sequence[str]
    ) -> None:
        own = environ.get(client.folder_variable) if client.folder_variable else None
        paths = [_expand_path(name, environ, folder, own) for name in client.files]
        if client.delivery == "file option":
            paths = [folder / name for name in self._find_option(arguments, client.handle[0])] or paths
        self.paths = [path for path in paths if path is not None]
        self.existing = [path for path in self.paths if path.is_file()]
        self.path = (self.existing or self.paths)[0 if client.delivery == "folder" else -1]
        self.folder = self.path.parent
        text = environ.get(client.content_variable, "") if client.content_variable else ""
        self.content: dict[str, Any] = _parse_document(text, ".json", client.content_variable) if text else {}

    def read(self) -> list[Any]:
        """Returns the documents, those that come before others last."""
        documents = [_parse_document(path.read_text("utf-8"), path.suffix, str(path)) for path in self.existing]
        return [*documents, self.content]

    @staticmethod
    def _find_option(arguments: Sequence[str], option: str) -> list[str]:
        found = [after for word, after in pairwise(arguments) if word == option]
        return found + [word.partition("=")[2] for word in arguments if word.startswith(f"{option}=")]

    @staticmethod
    def drop_option(arguments: Sequence[str], option: str) -> tuple[str, ...]:
        """Returns the arguments without an option and its value."""
        out: list[str] = []
        skip = False
        for word in arguments:
            if not skip and word != option and not word.startswith(f"{option}="):
                out.append(word)
            skip = word == option
        return tuple(out)


def _expand_path(name: str, environ: Mapping[str, str], folder: Path, own: str | None) -> Path | None:
    """Returns where a file of a row is: in the home, in the folder that a variable names, or in the current one."""
    if name.startswith("$"):
        value = environ.get(name[1:])
        return folder / value if value else None
    if not name.startswith("~/"):
        return folder / name
    if own:
        return folder / own / Path(name).name
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    config = environ.get("XDG_CONFIG_HOME")
    if config and name.startswith("~/.config/"):
        return Path(config) / name.removeprefix("~/.config/")
    return home / name[2:]


def _parse_document(text: str, suffix: str, where: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        if suffix in (".yaml", ".yml"):
            return yaml.safe_load(text) or {}
        return json.loads(_COMMENT.sub(lambda found: found[1] or "", text) or "{}")
    except (ValueError, yaml.YAMLError) as exc:
        raise BadInput(f"{where} cannot be read, so its addresses are not known: {exc}") from exc


def _route_document(
    client: WrappedClient, source: _ConfigSource, routes: GatewayRoutes
) -> tuple[Any, dict[Place, str]]:
    """Returns the configuration, and each place in it that gets another address."""
    changes: dict[Place, str] = {}
    documents = source.read()
    for document in documents:
        for pattern in client.places:
            changes |= {at: routes.route_address(url) for at, url in list_addresses(document, pattern) if "://" in url}
    for default in client.defaults:
        changes = _find_defaults(default, documents, client, source, routes) | changes
    return (documents[0] if source.existing else {}), changes


def _find_defaults(
    default: DefaultAddress,
    documents: Sequence[Any],
    client: WrappedClient,
    source: _ConfigSource,
    routes: GatewayRoutes,
) -> dict[Place, str]:
    """Returns the places at which a default address is missing."""
    parent, _, leaf = default.place.rpartition(".")
    url = _read_login(client, source)
    address = routes.route_address(url) if url else routes.route_default() + default.suffix
    if default.when is None:
        return {(*parent.split("."), leaf) if parent else (leaf,): address}
    name, value = default.when
    return {
        (*at, leaf): address
        for document in documents
        for at, member in list_members(document, parent)
        if member.get(name) == value and leaf not in member
    }


def _read_login(client: WrappedClient, source: _ConfigSource) -> str:
    """Returns the upstream of the client's login, "" if it is that of every key."""
    if client.login is None:
        return ""
    name, field, value, url = client.login
    path = source.folder / name
    try:
        found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError:
        return ""
    return url if isinstance(found, dict) and found.get(field) == value else ""


def _write_document(source: _ConfigSource, document: Any, changes: Mapping[Place, str]) -> str:  # noqa: ANN401
    """Returns the text of the configuration with other addresses. JSON is YAML, too."""
    if source.path.suffix == ".toml":
        text = source.path.read_text("utf-8")
        for at, url in changes.items():
            text = re.sub(rf"([\"']){re.escape(_get_at(document, at))}\1", json.dumps(url), text)
        return text
    changed = json.loads(json.dumps(document, default=str))
    for at, url in changes.items():
        _set_at(changed, at, url)
    return json.dumps(changed, indent=2)


def _build_partial(changes: Mapping[Place, str], content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a document of the addresses alone, beside what a variable has already."""
    out: dict[str, Any] = json.loads(json.dumps(content))
    for at, url in changes.items():
        _set_at(out, at, url)
    return out


def _get_at(document: Any, at: Place) -> Any:  # noqa: ANN401 - whatever the file holds
    for key in at:
        document = document[key]
    return document


def _set_at(document: Any, at: Place, value: str) -> None:  # noqa: ANN401 - whatever the file holds
    for key in at[:-1]:
        document = document.setdefault(key, {}) if isinstance(document, dict) else document[key]
    document[at[-1]] = value


# -- files -------------------------------------------------------------------------------------------------------------


def _write_private(path: Path, text: str) -> str:
    """Writes a copy that only the user can read: keys may stand in it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return str(path)


def _link_folder(own: Path, place: Path, without: str) -> None:
    """Fills a folder with links to what is in the client's own."""
    for entry in sorted(own.iterdir()) if own.is_dir() else ():
        if entry.name != without:
            try:
                (place / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
            except OSError as exc:
                raise UsageError(
                    f"{own} cannot be lent to this run by links ({exc.strerror}): on Windows, turn on the developer "
                    "mode (Settings, For developers), or start `tenfold serve` and give the agent its address yourself"
                ) from exc


def _restore_files(place: Path, own: Path, without: str) -> None:
    """Moves what the client has written beside its configuration to its own folder, as if it had been written there."""
    for entry in sorted(place.iterdir()):
        if entry.is_symlink() or entry.name == without:
            continue
        own.mkdir(parents=True, exist_ok=True)
        target = own / entry.name
        if entry.is_dir() and target.is_dir():
            shutil.copytree(entry, target, dirs_exist_ok=True)
        elif entry.is_dir() or not target.is_dir():
            if target.is_file():
                target.unlink()
            shutil.move(entry, target)
