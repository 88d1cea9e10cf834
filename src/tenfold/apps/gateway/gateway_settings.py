"""What a gateway is started with. Every default is written here once.

A flag of `tenfold serve` comes before a variable of the environment, and that before the table `[tenfold.gateway]`:

    [tenfold.gateway]
    upstream = "http://localhost:8000/v1"   # a server of your own, for every API
    window = 128000
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenfold.apps.gateway.upstreams import Upstreams, list_apis
from tenfold.config.settings import Config
from tenfold.errors import UsageError, suggest_nearest

RecallChoice = Literal["inside", "none"]
KEY_VARIABLE = "TENFOLD_GATEWAY_KEY"
URL_VARIABLE = "TENFOLD_GATEWAY_URL"
"""Where the extensions of pi and opencode look for a gateway."""
KEY_HEADER = "x-tenfold-key"
"""The header in which a client sends the gateway's key."""
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/*?#@\s]+")


class GatewaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a gateway.

    `upstream` is where every request goes; without it, each API goes to its provider, or to the address that
    `upstreams` has under its name. `window` takes the place of the model's context window, in tokens. `policy`
    names the policy ("": the configured one). `summary_model` writes the summaries, at the upstream and with the
    client's credentials: "auto" is a cheap model of the provider, else the request's own, and "none" is no model at
    all. With `recall` "inside" the model can look up what is hidden. With `shadow` every request is forwarded as it
    came, and what would have been done is recorded. `key`, if any, must come with each request. Pages of a browser
    get in, and may read the answers, from the origins in `allow_origin` alone. `namespace` is the tenant of the
    store. `max_body` is in bytes, `timeout` in seconds without a byte from the upstream, or of a request's body
    from the client. More than `max_requests` at a time are refused with 503, more than `max_tenant_requests` with
    the same credentials with 429. `max_sessions` are kept in memory. `credential_headers` names headers that tell
    users apart besides those that `tenants.py` knows by their names.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    upstream: str = ""
    upstreams: dict[str, str] = {}
    policy: str = ""
    window: int | None = None
    summary_model: str = "auto"
    recall: RecallChoice = "inside"
    shadow: bool = False
    key: str = ""
    allow_origin: tuple[str, ...] = ()
    credential_headers: tuple[str, ...] = ()
    namespace: str = "default"
    max_body: int = 64 * 1024 * 1024
    max_requests: int = 256
    max_tenant_requests: int = 128
    max_sessions: int = 256
    jobs: bool = False
    timeout: float = 600.0

    def __post_init__(self) -> None:
        """Raises `UsageError` for settings that cannot work."""
        for origin in self.allow_origin:
            if not _ORIGIN.fullmatch(origin):
                raise UsageError(
                    f"allow_origin of the gateway names the origin of a page, as http://localhost:3000, not {origin!r}"
                )
        for name in ("window", "max_body", "max_requests", "max_tenant_requests", "max_sessions", "timeout"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"the setting {name} of the gateway is {value}: it has to be above 0")
        _ = self.addresses

    @property
    def addresses(self) -> Upstreams:
        """Where requests go. Raises `UsageError` for an address that is none."""
        return Upstreams(self.upstream, self.upstreams)


def load_gateway_settings(
    config: Config, flags: Mapping[str, Any], *, environ: Mapping[str, str] = os.environ
) -> GatewaySettings:
    """Builds the settings from flags (those that are not None), the environment and the settings file, in that order.

    The variables are `TENFOLD_UPSTREAM`, one for each API as in `TENFOLD_OPENAI_UPSTREAM`, and `TENFOLD_GATEWAY_KEY`.
    Raises `UsageError` for a setting that is unknown or wrong.
    """
    names = GatewaySettings.__struct_fields__
    for name in config.gateway:
        if name not in names:
            raise UsageError(
                f"[tenfold.gateway] in {config.where} has no setting {name!r}{suggest_nearest(name, names)}"
            )
    variables = {"upstream": environ.get("TENFOLD_UPSTREAM"), "key": environ.get(KEY_VARIABLE)}
    variables = {name: value for name, value in variables.items() if value}
    named = {api: url for api in list_apis() if (url := environ.get(f"TENFOLD_{api.upper()}_UPSTREAM"))}
    given = {name: value for name, value in flags.items() if value is not None}
    values = {"namespace": config.common.namespace, **config.gateway, **variables, **given}
    told = config.gateway.get("upstreams", {})
    if isinstance(told, Mapping):  # else the error below says what is wrong
        values["upstreams"] = {**told, **named, **given.get("upstreams", {})}
    try:
        return msgspec.convert(values, GatewaySettings)
    except msgspec.ValidationError as exc:
        raise UsageError(f"the settings of the gateway: {exc}") from exc


def list_gateways(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Lists where a gateway may run: at the address of `tenfold serve`, and where extensions look for one."""
    usual = GatewaySettings()
    host = str(config.gateway.get("host", usual.host))
    reached = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - to connect, not to listen
    own = f"http://{reached}:{config.gateway.get('port', usual.port)}"
    return list(dict.fromkeys(url.rstrip("/") for url in (own, environ.get(URL_VARIABLE, "")) if url))
