"""The public face: a conversation in a store, read, written, compacted, searched and undone.

May import: `compaction`, `config`, `store`, `recall` and what lies below them. `Session` is synchronous, `AsyncSession`
has the same methods for coroutines, and `stateless.compact` works on a plain list without a store. A session has three
parts: `conversation` is its log, `compactor` runs its compactions, `requests` reads what a host sends.
"""

from __future__ import annotations

from tenfold.session.async_facade import AsyncSession
from tenfold.session.compactor import PolicyProvider
from tenfold.session.conversation import SessionAddress, Stamps
from tenfold.session.facade import Session

__all__ = ["AsyncSession", "PolicyProvider", "Session", "SessionAddress", "Stamps"]
