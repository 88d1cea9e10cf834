"""Where requests go: one address for each API, from the settings alone. A request never names its own upstream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tenfold.core.wire import DEFAULT_WIRE, WIRES, get_wire
from tenfold.core.wire.api import Api
from tenfold.errors import BadInput, UsageError

_VERSION = re.compile(r"/(v\d[a-z0-9]*)(?=/|$)")
"""The version in a path, as in /v1/messages or /v1beta/models. What stands before it is the client's own prefix."""
_ADDRESS = re.compile(r"https?://[^/?#\\\s]+(?:/[^?#\\\s]*)?", re.IGNORECASE)
_UPWARDS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\;?]|$)")
"""A segment that leads out of the path before it."""


def _is_address(url: str) -> bool:
    """Whether a text is an address of a server, with a path at most."""
    try:
        parts = urlsplit(url)
        return bool(_ADDRESS.fullmatch(url) and parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are no address, or a port that is no number
        return False


def list_apis() -> dict[str, Api]:
    """Returns the API of every wire that has one, by the name that settings call it."""
    return {wire.api.name: wire.api for wire in WIRES.values() if wire.api is not None}


def get_api(wire: str) -> Api:
    """Returns the API of a wire. Raises `UsageError` if only its messages are known."""
    api = get_wire(wire).api
    if api is None:
        raise UsageError(f"of the wire {wire!r} only the messages are known, and not how its API is called")
    return api


class Upstreams(Struct, frozen=True):
    """The address of each provider's API: `named`, by the name of the API, or the provider's own.

    `everything`, if given, is the address of all of them.
    """

    everything: str = ""
    named: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Raises `UsageError` for an address that is none, and for an API that is none."""
        for url in (self.everything, *self.named.values()):
            if url and not _is_address(url):
                raise UsageError(f"the upstream {url!r} is no address: write it as https://HOST[:PORT][/PATH]")
        for name in self.named.keys() - list_apis().keys():
            names = ", ".join(sorted(list_apis()))
            raise UsageError(f"there is no API {name!r} whose upstream could be set; there are {names}")

    def get_base(self, wire: str) -> str:
        """Returns the address of the API that speaks this wire."""
        api = get_api(wire)
        return self.everything or self.named.get(api.name) or api.address

    def build_url(self, wire: str, path: str, query: str = "") -> str:
        """Returns the address for a request's path, without what the client has before the version.

        A missing version is added only at a provider's own address: elsewhere there may be none. Scheme, host and port
        are from the settings alone, since nothing but a path is put behind them: raises `BadInput` for anything else,
        and for a path that leads out of the address.

        Upstreams().build_url("openai-chat", "/my/prefix/v1/chat/completions")
        # https://api.openai.com/v1/chat/completions
        """
        if not path.startswith("/"):
            raise BadInput(f"a path begins with /, and {path[:80]!r} does not")
        if _UPWARDS.search(unquote(unquote(path))):  # some servers decode twice
            raise BadInput(f"a path has no part `..`, and {path[:80]!r} has")
        base = self.get_base(wire).rstrip("/")
        version = _VERSION.search(path)
        rest = path[version.start() :] if version is not None else path
        if version is not None and base.endswith(f"/{version[1]}"):
            base = base[: -len(version[1]) - 1]
        elif version is None and (api := _find_owner(base)) is not None and path.startswith(api.resources):
            rest = f"/{api.version}{rest}"
        return f"{base}{rest}" + (f"?{query}" if query else "")

    def has_own_address(self, wire: str) -> bool:
        """Whether the provider's own address is used, so that its other models are there as well."""
        return self.get_base(wire) == get_api(wire).address


def _find_owner(base: str) -> Api | None:
    """Finds the API whose own address this is, and which has a version behind it."""
    return next((api for api in list_apis().values() if api.version and api.address == base), None)


def parse_upstreams(values: Iterable[str]) -> dict[str, Any]:
    """Returns the settings that the values of --upstream are: URL, or API=URL."""
    out: dict[str, Any] = {}
    for value in values:
        api, equals, url = value.partition("=")
        if not equals or "://" in api:
            out["upstream"] = value
        else:
            out["upstreams"] = {**out.get("upstreams", {}), api: url}
    return out


def choose_likely_wire(path: str, headers: Mapping[str, str]) -> str:
    """Guesses whose API a request is for that calls no model, such as a list of models."""
    for name, wire in WIRES.items():
        api = wire.api
        if api is not None and (any(h in headers for h in api.headers) or any(part in path for part in api.path_parts)):
            return name
    return DEFAULT_WIRE
