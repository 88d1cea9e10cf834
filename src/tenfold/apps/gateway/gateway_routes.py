"""Gives each address that a client uses a gateway in front of it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.request_log import Totals
from tenfold.apps.gateway.server import GatewayThread
from tenfold.apps.gateway.upstreams import Upstreams, list_apis
from tenfold.config.settings import Config
from tenfold.store.base import Store

_VERSION = re.compile(r"/v\d[a-z0-9]*(?=/|$)")


class GatewayRoutes:
    """Gateways in threads, one for each upstream, for as long as a `with` block lasts.

    with GatewayRoutes(GatewaySettings(), store, config) as routes:
        routes.route_address("http://localhost:8000/v1")  # "http://127.0.0.1:40123/v1"
        routes.route_default()                            # the gateway of the providers' own addresses
    """

    def __init__(self, settings: GatewaySettings, store: Store, config: Config) -> None:
        """They listen on free ports of loopback, so they need no key. `settings.upstream`, if set, gets everything."""
        self._settings = replace(settings, host="127.0.0.1", port=0, key="")
        self._store, self._config = store, config
        self._stack = ExitStack()
        self._gateways: dict[str, GatewayThread] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def route_default(self) -> str:
        """Returns the address of the gateway in front of the providers' own, which knows their APIs by the path."""
        return self._open(self._settings.upstream)

    def route_address(self, url: str) -> str:
        """Returns the address that a client is given in place of `url`: a gateway's, with the same version at the end.

        A gateway's own address is returned as it is. Raises `UsageError` if `url` is no address.
        """
        Upstreams(everything=url.partition("?")[0])
        if any(url.startswith(served.url) for served in self._gateways.values()):
            return url
        parts = urlsplit(url)
        version = _VERSION.search(parts.path)
        at = version.start() if version is not None else len(parts.path)
        base, rest = f"{parts.scheme}://{parts.netloc}{parts.path[:at].rstrip('/')}", parts.path[at:]
        is_own = any(base == api.address.removesuffix("/v1") for api in list_apis().values())
        gateway = self._open(self._settings.upstream if is_own or self._settings.upstream else base)
        return gateway + rest + (f"?{parts.query}" if parts.query else "")

    def sum_totals(self) -> Totals:
        """Adds up what the gateways have done."""
        every = [served.gateway.log.totals for served in self._gateways.values()]
        sums = {name: sum(getattr(each, name) for each in every) for name in Totals.NUMBERS}
        return Totals(**sums, sessions={id_: count for each in every for id_, count in each.sessions.items()})

    def _open(self, upstream: str) -> str:
        if upstream not in self._gateways:
            gateway = Gateway(replace(self._settings, upstream=upstream), self._store, self._config, is_private=True)
            self._gateways[upstream] = self._stack.enter_context(GatewayThread(gateway))
        return self._gateways[upstream].url
