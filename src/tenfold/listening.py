"""Takes the port that a server listens on: one place for the gateway and the MCP server."""

from __future__ import annotations

import socket

from tenfold.errors import TenfoldError

BACKLOG = 2_048
"""How many connections may wait until they are accepted."""


def bind_port(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on a port already, so that whoever is told the address may connect at once.

    The port 0 takes a free one. Raises `TenfoldError` if the port cannot be taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol, for only then asyncio sends each piece at once (TCP_NODELAY) and not after the one before.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as exc:
        bound.close()
        raise TenfoldError(
            f"{host}:{port} cannot be used ({exc.strerror}): give another --port, 0 for a free one"
        ) from exc
    return bound


def get_url(bound: socket.socket) -> str:
    """Returns the address of a socket that listens, as a URL without a path."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
