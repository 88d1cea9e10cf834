"""The flags that `tenfold serve` and `tenfold wrap` have in common, and the settings that they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tenfold.apps.gateway.upstreams import parse_upstreams
from tenfold.config.settings import Config
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import UsageError

if TYPE_CHECKING:
    from tenfold.apps.gateway.gateway_settings import GatewaySettings

STORE_PATIENCE = 1.0
"""Seconds that a write waits for another process's while a client waits. After that, the request goes as it came."""
UpstreamOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]URL",
        help="Where requests go: all of them, or those of one API, as in anthropic=https://HOST. The APIs are openai, "
        "anthropic and gemini; give it again for another. Default: the providers' own addresses.",
    ),
]
GatewayWindowOption = Annotated[
    int | None, typer.Option(min=1, help="The context window in tokens, for models whose window Tenfold does not know.")
]
SummaryModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model that writes the summaries, with the client's own credentials: `auto` is a cheap one of the "
        "provider, else the request's own; `none` writes them by code. Default: auto.",
    ),
]
GatewayRecallOption = Annotated[
    Literal["inside", "none"] | None,
    typer.Option(
        metavar="WHERE", help="`inside` lets the model look up what is hidden, `none` does not. Default: inside."
    ),
]
AllowOriginOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="Let the pages of this origin in, as http://localhost:3000; give it again for another. Default: no "
        "page of a browser is a client.",
    ),
]
ShadowOption = Annotated[
    bool, typer.Option("--shadow", help="Forward everything as it came, and record what would have been done.")
]
CredentialHeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A header that tells users apart, besides those whose names say so, as x-api-key does. Give it again for "
        "another.",
    ),
]


@contextmanager
def require_gateway() -> Iterator[None]:
    """Turns a failed import within the block into a `UsageError` that says what to install."""
    try:
        yield
    except ImportError as exc:
        raise UsageError(f"the gateway needs {exc.name}: pip install 'tenfold[serve]'") from exc


def build_settings(  # noqa: PLR0913 - one parameter per flag
    config: Config,
    *,
    upstream: Sequence[str] | None,
    window: int | None,
    policy: str,
    summary_model: str | None,
    recall: str | None,
    shadow: bool,
    namespace: str,
    **others: object,
) -> GatewaySettings:
    """Builds the settings of a gateway from the flags that both commands have, and from those of one of them.

    Flags that were not given are left to the environment and the settings file. Raises `UsageError` for a wrong one,
    and for a policy that does not exist or cannot be built.
    """
    from tenfold.apps.gateway.gateway_settings import load_gateway_settings  # noqa: PLC0415 - an optional extra

    flags = {
        **parse_upstreams(upstream or ()),
        "window": window,
        "policy": policy or None,
        "summary_model": summary_model,
        "recall": recall,
        "shadow": shadow or None,
        "namespace": namespace or None,
        **others,
    }
    settings = load_gateway_settings(config, flags)
    config.build_policy(choose_counter(None).counter, settings.policy)
    return settings
