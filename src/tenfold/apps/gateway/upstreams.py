"""Where requests go: one address for each API, from the settings alone. A request never names its own upstream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tenfold.errors import BadInput, UsageError

_VERSION = re.compile(r"/(v\d[a-z0-9]*)(?=/|$)")
"""The version in a path, as in /v1/messages or /v1beta/models. What stands before it is the client's own prefix."""
_ADDRESS = re.compile(r"https?://[^/?#\\\s]+(?:/[^?#\\\s]*)?", re.IGNORECASE)
_UPWARDS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\;?]|$)")
"""A segment that leads out of the path before it."""
_ANTHROPIC_HEADERS = ("anthropic-version", "x-api-key")


def _is_address(url: str) -> bool:
    """Whether a text is an address of a server, with a path at most."""
    try:
        parts = urlsplit(url)
        return bool(_ADDRESS.fullmatch(url) and parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are no address, or a port that is no number
        return False


class Upstreams(Struct, frozen=True):
    """The address of each provider's API. `wire_urls` are those of single wires and come before the others."""

    openai: str = "https://api.openai.com/v1"
    anthropic: str = "https://api.anthropic.com"
    gemini: str = "https://generativelanguage.googleapis.com"
    everything: str = ""

    def __post_init__(self) -> None:
        """Raises `UsageError` for an address that is none."""
        for name in self.__struct_fields__:
            url = getattr(self, name)
            if url and not _is_address(url):
                raise UsageError(f"the upstream {url!r} is no address: write it as https://HOST[:PORT][/PATH]")

    def get_base(self, wire: str) -> str:
        """Returns the address of the API that speaks this wire."""
        if self.everything:
            return self.everything
        return {"anthropic": self.anthropic, "gemini": self.gemini}.get(wire, self.openai)

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
        elif version is None and base in _OWN_VERSIONS and path.startswith(_RESOURCES):
            rest = f"/{_OWN_VERSIONS[base]}{rest}"
        return f"{base}{rest}" + (f"?{query}" if query else "")

    def has_own_address(self, wire: str) -> bool:
        """Whether the provider's own address is used, so that its other models are there as well."""
        return self.get_base(wire) == Upstreams().get_base(wire)


_OWN_VERSIONS = {Upstreams().anthropic: "v1", Upstreams().gemini: "v1beta"}
_RESOURCES = ("/messages", "/models")
"""What stands behind the version in the requests of clients that leave it to the address."""


def parse_upstreams(values: Iterable[str]) -> dict[str, str]:
    """Returns the settings that the values of --upstream are. Raises `UsageError` for an API that is none."""
    out: dict[str, str] = {}
    for value in values:
        api, equals, url = value.partition("=")
        if not equals or "://" in api:
            out["upstream"] = value
        elif api in ("openai", "anthropic", "gemini"):
            out[f"{api}_upstream"] = url
        else:
            raise UsageError(f"--upstream {value}: there is no API {api!r}; there are openai, anthropic and gemini")
    return out


def choose_likely_wire(path: str, headers: Mapping[str, str]) -> str:
    """Guesses whose API a request is for that calls no model, such as a list of models."""
    if any(name in headers for name in _ANTHROPIC_HEADERS):
        return "anthropic"
    if "x-goog-api-key" in headers or "/v1beta" in path:
        return "gemini"
    return "openai-chat"
