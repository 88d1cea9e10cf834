"""What a gateway is started with. Every default is written here once."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.gateway.upstreams import Upstreams

RecallChoice = Literal["inside", "none"]
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """The settings of a gateway.

    `window` takes the place of the model's context window, in tokens. `policy` names the policy ("": the configured
    one). `summary_model` writes the summaries, at the upstream and with the client's credentials: "auto" is a cheap
    model of the provider, else the request's own, and "none" is no model at all. With `recall` "inside" the model can
    look up what is hidden. With `shadow` every request is forwarded as it came, and what would have been done is
    recorded. `key`, if any, must come with each request. `max_body` is in bytes, `timeout` in seconds without a byte
    from the upstream. More than `max_requests` at a time are refused with 503, more than `max_tenant_requests` with the
    same credentials with 429. `max_sessions` are kept in memory.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    upstreams: Upstreams = Upstreams()
    policy: str = ""
    window: int | None = None
    summary_model: str = "auto"
    recall: RecallChoice = "inside"
    shadow: bool = False
    key: str = ""
    namespace: str = "default"
    max_body: int = 64 * 1024 * 1024
    max_requests: int = 256
    max_tenant_requests: int = 128
    max_sessions: int = 256
    timeout: float = 600.0

    def __post_init__(self) -> None:
        """Raises `UsageError` for settings that would leave the gateway open, or that cannot work."""
        if self.host not in LOOPBACK_HOSTS and not self.key:
            raise UsageError(
                f"{self.host} can be reached by others: a gateway that listens there needs a key; give one with --key "
                "or TENFOLD_GATEWAY_KEY"
            )
        if self.window is not None and self.window < 1:
            raise UsageError(f"a window of {self.window} tokens holds nothing: give at least 1")
