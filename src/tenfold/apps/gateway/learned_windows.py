"""Remembers the limits that providers name when they refuse a request as too long."""

from __future__ import annotations

from collections import OrderedDict

from tenfold.core.text.memoize import MAX_NAME_LENGTH

MAX_WINDOWS = 1_024
"""How many are remembered. Those learnt first go first."""


class LearnedWindows:
    """The window of each model of a tenant and an API, as far as its provider has named it.

    It lives as long as the gateway. After a restart the provider's first refusal names it again.
    """

    def __init__(self) -> None:
        """Begins with none."""
        self._windows: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def keep(self, tenant: str, wire: str, model: str, limit: int) -> None:
        """Remembers the limit that the provider named last, in tokens."""
        if len(model) > MAX_NAME_LENGTH:
            return
        self._windows[tenant, wire, model] = limit
        self._windows.move_to_end((tenant, wire, model))
        if len(self._windows) > MAX_WINDOWS:
            self._windows.popitem(last=False)

    def find(self, tenant: str, wire: str, model: str, known: int | None) -> int | None:
        """Returns the window: the `known` one (None: unknown), or what the provider named, if that is less."""
        learned = self._windows.get((tenant, wire, model))
        if learned is None or known is None:
            return learned if known is None else known
        return min(learned, known)
