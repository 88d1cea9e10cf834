"""Finds the session that a request belongs to. Clients resend everything; few say which conversation it is.

A *lane* is one line of a conversation as a client sends it, kept by one head of a session. A request continues the lane
whose last list it begins with. If it shares an answer of the model with a lane and then differs, it is a fork: a branch
of the same session. Anything else is a new session.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct

from tenfold.errors import LostRace, NotFoundError
from tenfold.gateway.cache_marks import fingerprint_item
from tenfold.gateway.later_work import LaterWork
from tenfold.gateway.model_request import ModelRequest
from tenfold.gateway.sent_views import SentView
from tenfold.recall.expand import open_path
from tenfold.record.message import Message, get_text
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.store.base import SessionInfo, Store
from tenfold.wire import get_wire
from tenfold.wire.fingerprint import fingerprint_message

T = TypeVar("T")
SessionOpener = Callable[[SessionAddress, str, SessionInfo | None], Session]
"""Opens the session at an address for a model. With the information it is created."""
OPENING_ITEMS = 12
"""How many items of a list are looked at for the first message of the user."""
MAX_CHANGED_ITEMS = 6
"""How many items of a known list may be written differently, as where cache marks moved, before all is compared."""
TITLE_LENGTH = 80


class Family(Struct, frozen=True):
    """Requests that may be of one conversation: the same tenant, wire, and client's id or first user message."""

    tenant: str
    wire: str
    key: str

    @property
    def session_prefix(self) -> str:
        """How the ids of its sessions begin. They can be found again after a restart."""
        digest = hashlib.sha256(f"{self.tenant}\0{self.wire}\0{self.key}".encode("utf-8", "replace")).hexdigest()
        return f"gateway-{digest[:16]}"


class Lane:
    """One line of a conversation: its session, and the items of the last request.

    The session knows of `synced_count` of these items, and of the others once the work on it is done. `sent_view` is
    what was sent for the last request that it was asked for, None if that was the request itself.
    """

    def __init__(self, session: Session) -> None:
        """Begins without a list: the first one is matched with the log."""
        self.session = AsyncSession(session)
        self.items: list[bytes] = []
        self.synced_count = 0
        self.hidden: tuple[str | None, int] = (None, 0)
        self.has_pinned_opening = False
        self.sent_view: SentView | None = None
        self._later: LaterWork[Any] | None = None

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.session.session.address.session

    def is_continued_by(self, request: ModelRequest) -> bool:
        """Whether a request's list begins with the last one, apart from cache marks and the like in a few items."""
        count = len(self.items)
        if not count or len(request.items) < count:
            return False
        head = request.items[:count]
        if head == self.items:
            return True
        changed = [at for at, (new, old) in enumerate(zip(head, self.items, strict=True)) if new != old]
        return len(changed) <= MAX_CHANGED_ITEMS and all(
            fingerprint_item(request.wire, head[at]) == fingerprint_item(request.wire, self.items[at]) for at in changed
        )

    def add_later_work(self, work: Callable[[], Coroutine[Any, Any, T]]) -> LaterWork[T]:
        """Has work on the session done a moment later, after what was added before. See `LaterWork`."""

        async def run() -> T:
            try:
                return await work()
            finally:
                if self._later is later:
                    self._later = None  # it holds a whole request

        later = self._later = LaterWork(run, self._later)
        return later

    @property
    def is_idle(self) -> bool:
        """Whether no work on the session waits or is being done."""
        return self._later is None

    async def finish_later_work(self) -> None:
        """Waits until the session knows of the requests that were sent on before it was looked at."""
        if self._later is not None:
            await self._later.finish()

    def use_request(self, request: ModelRequest) -> Lane:
        """Takes the list of a request, with which the next one has to begin. Returns the lane.

        What it has in common with the last one is held once: the request gets the items that are held already.
        """
        known = zip(self.items, request.items, strict=False)
        request.items[: len(self.items)] = [old if old == new else new for old, new in known]
        self.items = request.items
        return self

    async def run_on_newest(self, request: ModelRequest, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Does the work of a request on its session as the store has it now: `tenfold undo` may have changed it."""
        if self.synced_count == len(request.items):  # nothing will be appended, which is how a change is noticed
            await asyncio.to_thread(self._refresh_moved)
        try:
            return await work()
        except LostRace:
            await self.session.refresh()
            return await work()

    def _refresh_moved(self) -> None:
        session = self.session.session
        address = session.address
        if address.store.read_heads(address.namespace, address.session).get(address.head) != session.leaf:
            session.refresh()

    def note_synced(self, request: ModelRequest) -> None:
        """Notes that the session knows of all items of a request."""
        self.synced_count = len(request.items)

    def count_hidden(self) -> int:
        """Counts the tokens that compactions take out of each request, by the policy's counter."""
        session = self.session.session
        block = session.find_newest_block_id()
        if block is None:
            return 0
        if self.hidden[0] != block:
            shown = sum(session.get_message_sizes().values())
            self.hidden = (block, max(0, session.count_uncompacted() - shown))
        return self.hidden[1]


def find_opening(request: ModelRequest) -> str:
    """Returns a digest of the first message of the user, by which sessions without an id are looked for."""
    digests = (_digest_opening(request.wire, item) for item in request.items[:OPENING_ITEMS])
    return next(filter(None, digests), "")


@lru_cache(maxsize=1_024)
def _digest_opening(wire: str, item: bytes) -> str:
    """Returns a digest of an item, "" if it is no message of the user."""
    messages = get_wire(wire).decode([item])
    return next((fingerprint_message(m).hex() for m in messages if m.role == "user"), "")


class LaneTable:
    """All lanes of a gateway, the most recently used `limit` of them in memory. The others are read from the store."""

    def __init__(self, store: Store, open_session: SessionOpener, *, namespace: str, limit: int) -> None:
        """`open_session` opens sessions with their policy and what writes their summaries."""
        self._store, self._open_session, self._namespace, self._limit = store, open_session, namespace, limit
        self._families: OrderedDict[Family, list[Lane]] = OrderedDict()
        self._counts: dict[Family, int] = {}
        self._closed: dict[Family, dict[tuple[int, bytes], SessionAddress]] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """How many lanes are in memory."""
        return sum(map(len, self._families.values()))

    async def finish_later_work(self) -> None:
        """Waits until every session knows of all its requests. To be called before the event loop ends."""
        for lane in [lane for lanes in self._families.values() for lane in lanes]:
            await lane.finish_later_work()

    def find_known_lane(self, family: Family, request: ModelRequest) -> Lane | None:
        """Finds the lane in memory that a request goes on from, without reading the store and without waiting.

        None if there is none, or while another request's lane is looked for in the store.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            lanes = self._families.get(family, ())
            lane = next((each for each in lanes if each.is_continued_by(request)), None)
            if lane is None:
                return None
            self._families.move_to_end(family)
            return lane.use_request(request)
        finally:
            self._lock.release()

    def find_lane(self, family: Family, request: ModelRequest) -> Lane:
        """Finds the lane of a request, or opens one. The next request goes on from this one's list."""
        with self._lock:
            lanes = self._load_family(family, request.model)
            lane = next((each for each in lanes if each.is_continued_by(request)), None)
            if lane is None:
                lane = self._match_lane(family, [*lanes, *self._open_closed(family, request)], request)
            if lanes[:1] != [lane]:
                lanes[:] = [lane, *(each for each in lanes if each is not lane)]
                self._close_lanes(family, lanes)
            return lane.use_request(request)

    def _load_family(self, family: Family, model: str) -> list[Lane]:
        lanes = self._families.get(family)
        if lanes is None:
            lanes = self._families[family] = self._read_lanes(family, model)
            while len(self) > self._limit and len(self._families) > 1:
                gone, _ = self._families.popitem(last=False)
                del self._counts[gone], self._closed[gone]
        self._families.move_to_end(family)
        return lanes

    def _read_lanes(self, family: Family, model: str) -> list[Lane]:
        """Counts the sessions of a family that an earlier process has left in the store, and reads the newest lanes."""
        found: list[SessionAddress] = []
        self._counts[family], self._closed[family] = 0, {}
        with suppress(NotFoundError):
            while True:
                id_ = f"{family.session_prefix}-{self._counts[family]}"
                heads = self._store.read_heads(self._namespace, id_)
                found += [SessionAddress(self._store, id_, self._namespace, head) for head in heads]
                self._counts[family] += 1
        return [Lane(self._open_session(address, model, None)) for address in found[: -self._limit - 1 : -1]]

    def _close_lanes(self, family: Family, lanes: list[Lane]) -> None:
        """Keeps the most recently used lanes of a family in memory, and of the others how their last lists ended."""
        for lane in lanes[self._limit :]:
            if lane.items:
                end = b"".join(fingerprint_item(family.wire, lane.items[-1]))
                self._closed[family][len(lane.items), end] = lane.session.session.address
        del lanes[self._limit :]

    def _open_closed(self, family: Family, request: ModelRequest) -> list[Lane]:
        """Opens the lane of a family again that is not in memory any more, and that a request seems to go on from."""
        closed, items = self._closed[family], request.items
        for count in sorted({count for count, _ in closed if count <= len(items)}, reverse=True):
            end = b"".join(fingerprint_item(family.wire, items[count - 1]))
            if (address := closed.pop((count, end), None)) is not None:
                return [Lane(self._open_session(address, request.model, None))]
        return []

    def _match_lane(self, family: Family, lanes: list[Lane], request: ModelRequest) -> Lane:
        items = request.items if lanes else request.items[:OPENING_ITEMS]
        messages = get_wire(request.wire).decode(items)
        known = [(*lane.session.session.match(messages), lane) for lane in lanes]
        for count, is_whole, lane in known:
            if count and is_whole:
                return lane
        count, _, best = max(known, key=lambda each: each[0], default=(0, False, None))
        if best is not None and any(message.role == "assistant" for message in messages[:count]):
            return self._fork_lane(best, request.model)
        return self._create_lane(family, messages, request)

    def _create_lane(self, family: Family, messages: Sequence[Message], request: ModelRequest) -> Lane:
        said = [m for m in messages if m.role == "user"]
        first = next((m for m in said if m.origin == "human"), next(iter(said), None))
        title = " ".join(get_text(first).split())[:TITLE_LENGTH] if first is not None else ""
        id_ = f"{family.session_prefix}-{self._counts[family]}"
        info = SessionInfo(id_, title=title, model=request.model)
        lane = Lane(self._open_session(SessionAddress(self._store, id_, self._namespace), request.model, info))
        self._counts[family] += 1
        return lane

    def _fork_lane(self, lane: Lane, model: str) -> Lane:
        """Opens a head that branches off from the lane's. Syncing it finds where."""
        origin, store, namespace = lane.session.session, self._store, self._namespace
        head = f"fork-{len(store.read_heads(namespace, lane.id))}"
        session = self._open_session(SessionAddress(store, lane.id, namespace, head), model, None)
        leaf = origin.leaf
        if leaf is not None:
            session.move_to(open_path(store, namespace, store.locate(namespace, leaf)), (), expected=session.leaf)
        return Lane(session)
