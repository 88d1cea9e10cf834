"""Finds the session that a request belongs to. Clients resend everything; few say which conversation it is.

A *lane* is one line of a conversation as a client sends it, kept by one head of a session. A request continues the lane
whose last list it begins with, the longest one. If it only shares a beginning with a lane, it is a fork: a branch of
the same session, where the client's id of the session or what they share says so. Anything else is a new session.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import zip_longest
from secrets import token_hex
from typing import Any, Generic, TypeVar

from msgspec import Struct

from tenfold.apps.gateway.client_marks import find_cache_key, find_client_session, find_end_user
from tenfold.apps.gateway.model_request import ModelRequest, fingerprint_item
from tenfold.apps.gateway.sent_views import SentView
from tenfold.core.record.message import Message, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted, ProviderTokens
from tenfold.core.wire import get_wire
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.registry import has_tool_definitions
from tenfold.errors import LostRace, NotFoundError
from tenfold.models.prices import find_prices
from tenfold.recall.expand import open_path
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.ledger import SessionFacts, SessionLedger
from tenfold.store.base import SessionInfo, Store

T = TypeVar("T")
SessionOpener = Callable[[SessionAddress, str, SessionInfo | None], Session]
"""Opens the session at an address for a model. With the information it is created."""
OPENING_ITEMS = 12
"""How many items of a list are decoded where there is nothing to compare the others with."""
MAX_CHANGED_ITEMS = 6
"""How many items of a known list may be written differently, as where cache marks moved, before all is compared."""
FORK_EVIDENCE = 500
"""Characters that users and tools must have given in what two lists share, for both to be one conversation without an
id of the client's. What a model answers follows from that, so it is no evidence. Greetings and a few clicks on offered
answers, which chats of many users have in common, take less than 200; one task of a user with one result takes more."""
MAX_LANE_BYTES = 128 * 1024 * 1024
"""Bytes of all lists that are kept in memory. Sessions used least recently are read from the store again."""
MAX_CLOSED_LANES = 4_096
"""How many lanes of a family that are not in memory are known by how their lists ended."""
TITLE_LENGTH = 80
DELAY = 0.05
"""Seconds until work that waits begins by itself. The request is on its way by then, and the provider works."""


class Family(Struct, frozen=True):
    """Requests that may be of one conversation: the same tenant and wire, and the same id or first user message.

    `has_session_id` says that the client itself names the session, so that what shares a beginning is a branch of it.
    """

    tenant: str
    wire: str
    key: str
    has_session_id: bool = False

    @property
    def session_prefix(self) -> str:
        """How the ids of its sessions begin. They can be found again after a restart."""
        digest = hashlib.sha256(f"{self.tenant}\0{self.wire}\0{self.key}".encode("utf-8", "replace")).hexdigest()
        return f"gateway-{digest[:16]}"


def find_family(tenant: str, headers: Mapping[str, str], request: ModelRequest, *, session: str = "") -> Family:
    """Finds the family of a request. `session` is the client's id of the session, if it is known from elsewhere.

    End users of one key have families of their own where the request names them.
    """
    session = session or find_client_session(headers, request)
    user = find_end_user(request)
    key = session or find_cache_key(request) or find_opening(request)
    return Family(tenant, request.wire, f"{key}\0{user}" if user else key, has_session_id=bool(session))


def find_opening(request: ModelRequest) -> str:
    """Returns a digest of the first message of the user, by which sessions without an id are looked for."""
    digests = (_read_opening(request, at).digest for at in range(min(len(request.items), OPENING_ITEMS)))
    return next(filter(None, digests), "")


def has_answer(request: ModelRequest) -> bool:
    """Whether a list has an answer of the model in it, so that it is more than the opening of a conversation."""
    return any(_read_opening(request, at).is_answer for at in range(len(request.items)))


class _Opening(Struct, frozen=True):
    """What an item at the beginning of a list is: a message of the user, of which it has a digest, or an answer."""

    digest: str
    is_answer: bool


def _read_opening(request: ModelRequest, at: int) -> _Opening:
    """Reads an item once for all requests of a session: the beginning is the same in each."""
    key = hashlib.blake2b(request.wire.encode() + request.items[at], digest_size=16).digest()
    found = _OPENINGS.get(key)
    if found is None:
        messages = request.decode_item(at)
        digest = next((fingerprint_message(m).hex() for m in messages if m.role == "user"), "")
        is_answer = any(m.role == "assistant" and not has_tool_definitions(m) for m in messages)
        found = _Opening(digest, is_answer)
        if len(_OPENINGS) >= MAX_OPENINGS:
            _OPENINGS.clear()
        _OPENINGS[key] = found
    return found


_OPENINGS: dict[bytes, _Opening] = {}
"""What the openings of lists were found to be, by digests: the items themselves may be large."""
MAX_OPENINGS = 4_096


class LaterWork(Generic[T]):
    """Work that must not slow down the request it belongs to.

    It begins by itself a moment later, while the provider works, or when `start` is called, whichever is first.
    """

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, T]], earlier: LaterWork[T] | None = None, *, delay: float = DELAY
    ) -> None:
        """`earlier` is done before it. `delay` is in seconds. To be made on the event loop."""
        self._work, self._earlier = work, earlier
        self._task: asyncio.Task[T] | None = None
        self._timer = asyncio.get_running_loop().call_later(delay, self.start)

    def start(self) -> asyncio.Task[T]:
        """Begins the work if it has not begun yet. Returns its task, which several callers may wait for."""
        self._timer.cancel()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            _RUNNING.add(self._task)
            self._task.add_done_callback(_RUNNING.discard)
        return self._task

    async def finish(self) -> None:
        """Has the work done, and returns when it is. What it raises is left to those who wait for its task."""
        task = self.start()
        if not task.done():
            await asyncio.wait({task})

    async def _run(self) -> T:
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            await earlier.finish()
        return await self._work()


_RUNNING: set[asyncio.Task[Any]] = set()
"""Tasks that nobody may be waiting for. The event loop itself would let them be collected."""


class Lane:
    """One line of a conversation: its session, and the items of the last request.

    The session knows of the items `synced`, and of the others once the work on it is done. `size` are the bytes of the
    items. `sent_view` is what was sent for the last request that it was asked for, None if that was the request itself,
    and `is_changed` tells whether it was another. `ledger` adds its requests up while they come.
    """

    def __init__(self, session: Session, origin: Lane | None = None) -> None:
        """Begins without a list: the first one is matched with the log, or with that of the lane it branches off."""
        self.session = AsyncSession(session)
        self.items: list[bytes] = []
        self.size = 0
        self.synced: list[bytes] = []
        self._synced_overhead = b""
        self.hidden: tuple[str | None, Counted] = (None, NO_TOKENS)
        self.ledger = SessionLedger(SessionFacts(session.address.session), find_prices)
        self.has_pinned_opening = False
        self.sent_view: SentView | None = None
        self.is_changed = False
        self._later: LaterWork[Any] | None = None
        self._origin, self._branching = origin, asyncio.Lock()

    @property
    def address(self) -> SessionAddress:
        """Where the session is stored."""
        return self.session.session.address

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.address.session

    @property
    def synced_count(self) -> int:
        """How many items of the last list the session knows."""
        return len(self.synced)

    def measure_most(self, request: ModelRequest, window: int) -> ProviderTokens | None:
        """Returns how many tokens a request takes at most, with a token for each byte that is not known.

        None where its session has to tell: something is hidden, it was opened for this request, or it has yet to branch
        off from one that may hide something. Whoever calls holds the session's lock.
        """
        session = self.session.session
        is_unknown = self._origin is not None or (not self.synced and session.leaf is not None)
        if is_unknown or session.conversation.find_newest_block_id() is not None:
            return None
        is_known = bool(self.synced) and self._synced_overhead == _digest_overhead(request)
        reading = session.take_reading(window=window, floor=session.conversation.sent_overhead if is_known else 0)
        pairs = zip_longest(request.items, self.synced[: len(request.items)])
        new = sum(len(item) for item, old in pairs if item is not old and item != old)  # a system prompt may change
        beside = 0 if is_known else len(request.body) - sum(map(len, request.items))
        return reading.tokens + reading.to_provider_part(Counted(new + beside))

    def is_continued_by(self, request: ModelRequest) -> bool:
        """Whether a request's list begins with the last one, apart from cache marks and the like in a few items."""
        count = len(self.items)
        if not 0 < count <= len(request.items):
            return False
        head = request.items[:count]
        if head == self.items:
            return True
        changed = [at for at, (old, new) in enumerate(zip(self.items, head, strict=True)) if old != new]
        return len(changed) <= MAX_CHANGED_ITEMS and all(request.has_said(at, self.items[at]) for at in changed)

    def count_shared(self, request: ModelRequest) -> int:
        """Counts the items at the beginning that a request's list has in common with the last one, apart from marks."""
        pairs = enumerate(zip(self.items, request.items, strict=False))
        most = min(len(self.items), len(request.items))
        return next((at for at, (old, new) in pairs if old != new and not request.has_said(at, old)), most)

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
        self.items, self.size = request.items, sum(map(len, request.items))
        return self

    async def run_on_newest(self, request: ModelRequest, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Does the work of a request on its session as the store has it now: `tenfold undo` may have changed it."""
        await self._branch_off()
        if self.synced_count == len(request.items):  # nothing will be appended, which is how a change is noticed
            await asyncio.to_thread(self._refresh_moved)
        try:
            return await work()
        except LostRace:
            await self.session.refresh()
            return await work()

    async def _branch_off(self) -> None:
        """Goes to the end of the lane that this one branches off, once its session knows all. Syncing finds where."""
        async with self._branching:
            origin, session = self._origin, self.session.session
            if origin is None:
                return
            await origin.finish_later_work()
            store, namespace, leaf = self.address.store, self.address.namespace, origin.session.session.leaf
            if leaf is not None:
                path = await asyncio.to_thread(lambda: open_path(store, namespace, store.locate(namespace, leaf)))
                await asyncio.to_thread(session.compactor.move_to, path, (), expected=session.leaf)
            self._origin = None

    def _refresh_moved(self) -> None:
        session = self.session.session
        if not session.conversation.is_current():
            session.refresh()

    def note_synced(self, request: ModelRequest) -> None:
        """Notes that the session knows of all items of a request."""
        self.synced, self._synced_overhead = request.items, _digest_overhead(request)

    def count_hidden(self) -> Counted:
        """Counts the tokens that compactions take out of each request, by the policy's counter."""
        session = self.session.session
        block = session.conversation.find_newest_block_id()
        if block is None:
            return NO_TOKENS
        if self.hidden[0] != block:
            shown = sum(session.conversation.get_message_sizes().values(), NO_TOKENS)
            self.hidden = (block, max(NO_TOKENS, session.conversation.count_uncompacted() - shown))
        return self.hidden[1]


@contextmanager
def try_lock(lane: Lane) -> Iterator[bool]:
    """Holds the lock of a lane's session if it is free at this moment. The event loop must not wait for it."""
    lock = lane.session.session.conversation.lock
    is_free = lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            lock.release()


def _digest_overhead(request: ModelRequest) -> bytes:
    """Returns a digest of what is sent beside the list and counts as tokens: the system prompt and the tools."""
    fields = request.profile.request
    return hashlib.blake2b(request.get_raw(*fields.overhead_fields, *fields.settings_fields)).digest()


class _Kin:
    """The lanes of one family that are in memory, newest first, and how many sessions it has.

    `closed` has where the other lanes are, by the number of their last list's items and what the last one says.
    `lock` is held while lanes are looked for, `turn` until the work on the lane that was found is added.
    """

    def __init__(self) -> None:
        self.lock, self.turn = threading.Lock(), asyncio.Lock()
        self.lanes: list[Lane] = []
        self.session_count = -1
        self.closed: dict[tuple[int, bytes], SessionAddress] = {}

    def find_continued(self, request: ModelRequest) -> Lane | None:
        """Finds the lane whose last list a request begins with: the longest."""
        lanes = (lane for lane in self.lanes if lane.is_continued_by(request))
        return max(lanes, key=lambda lane: len(lane.items), default=None)

    def is_idle(self) -> bool:
        """Whether nobody works with the lanes."""
        return not self.lock.locked() and not self.turn.locked() and all(lane.is_idle for lane in self.lanes)


class LaneTable:
    """All lanes of a gateway, the most recently used `limit` of them in memory. The others are read from the store.

    The lock of the table is held for moments, that of a family while its lanes are looked for in the store.
    """

    def __init__(
        self, store: Store, open_session: SessionOpener, *, namespace: str, limit: int, max_bytes: int = MAX_LANE_BYTES
    ) -> None:
        """`open_session` opens sessions with their policy and what writes their summaries."""
        self._store, self._open_session, self._namespace = store, open_session, namespace
        self._limit, self._max_bytes = limit, max_bytes
        self._families: OrderedDict[Family, _Kin] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many lanes are in memory."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Lane]:
        """Yields the lanes in memory."""
        return iter([lane for kin in list(self._families.values()) for lane in kin.lanes])

    @property
    def size(self) -> int:
        """Bytes of the lists in memory."""
        return sum(lane.size for lane in self)

    async def finish_later_work(self) -> None:
        """Waits until every session knows of all its requests. To be called before the event loop ends."""
        for lane in self:
            await lane.finish_later_work()

    @asynccontextmanager
    async def take_turn(self, family: Family) -> AsyncIterator[None]:
        """Lets one request of a family at a time find its lane and add its work to it.

        A fork waits for the work of the lane that it branches off. It would not know of any that is added later, and
        would store again what both share.
        """
        async with self._open_kin(family).turn:
            yield

    def _open_kin(self, family: Family) -> _Kin:
        with self._lock:
            kin = self._families.setdefault(family, _Kin())
            self._families.move_to_end(family)
        return kin

    def find_known_lane(self, family: Family, request: ModelRequest) -> Lane | None:
        """Finds the lane in memory that a request goes on from, without reading the store and without waiting.

        None if there is none, or while another request's lane of the family is looked for in the store.
        """
        kin = self._families.get(family)
        if kin is None or not kin.lock.acquire(blocking=False):
            return None
        try:
            lane = kin.find_continued(request)
            return None if lane is None else lane.use_request(request)
        finally:
            kin.lock.release()

    def find_lane(self, family: Family, request: ModelRequest, client: str = "") -> Lane:
        """Finds the lane of a request, or opens one. The next request goes on from this one's list.

        `client` names the program that sent it, which a new session keeps.
        """
        kin = self._open_kin(family)
        with kin.lock:
            if kin.session_count < 0:
                self._read_lanes(kin, family, request.model)
            lane = kin.find_continued(request)
            if lane is None:
                self._open_closed(kin, request)
                lane = self._match_lane(kin, family, request, client)
            lane.use_request(request)
            if kin.lanes[:1] != [lane]:
                kin.lanes[:] = [lane, *(each for each in kin.lanes if each is not lane)]
                self._close_lanes(kin, family.wire)
        with self._lock:
            self._forget_families(family)
        return lane

    def _forget_families(self, kept: Family) -> None:
        """Drops the families that were used least recently where there is too much in memory. Busy ones stay."""
        for family, kin in list(self._families.items()):
            if len(self) <= self._limit and self.size <= self._max_bytes:
                return
            if family != kept and kin.is_idle():
                del self._families[family]

    def _read_lanes(self, kin: _Kin, family: Family, model: str) -> None:
        """Counts the sessions of a family that an earlier process has left in the store, and reads the newest lanes."""
        found: list[SessionAddress] = []
        count = 0
        with suppress(NotFoundError):
            while True:
                id_ = f"{family.session_prefix}-{count}"
                heads = self._store.read_heads(self._namespace, id_)
                found += [SessionAddress(self._store, id_, self._namespace, head) for head in heads]
                count += 1
        kin.lanes = [Lane(self._open_session(address, model, None)) for address in found[: -self._limit - 1 : -1]]
        kin.session_count = count

    def _close_lanes(self, kin: _Kin, wire: str) -> None:
        """Keeps the most recently used lanes of a family in memory, and of the others how their last lists ended."""
        size = 0
        for number, lane in enumerate(list(kin.lanes)):
            size += lane.size
            if not number or not lane.is_idle or (number < self._limit and size <= self._max_bytes):
                continue
            if lane.items:
                kin.closed[len(lane.items), _digest_end(wire, lane.items[-1])] = lane.address
            kin.lanes.remove(lane)
        for key in list(kin.closed)[: -MAX_CLOSED_LANES or None]:
            del kin.closed[key]

    def _open_closed(self, kin: _Kin, request: ModelRequest) -> None:
        """Opens the lane of a family again that is not in memory any more, and that a request seems to go on from."""
        items = request.items
        for count in sorted({count for count, _ in kin.closed if count <= len(items)}, reverse=True):
            address = kin.closed.pop((count, _digest_end(request.wire, items[count - 1])), None)
            if address is not None:
                kin.lanes.append(Lane(self._open_session(address, request.model, None)))
                return

    def _match_lane(self, kin: _Kin, family: Family, request: ModelRequest, client: str) -> Lane:
        """Matches a request with what the sessions know, and with the lists that they do not know yet."""
        wire = get_wire(request.wire)
        messages = wire.decode(request.items if kin.lanes else request.items[:OPENING_ITEMS])
        known: list[tuple[int, Lane]] = []
        continued: list[tuple[int, Lane]] = []
        for lane in kin.lanes:
            count, is_whole = lane.session.session.requests.match(messages)
            if is_whole and count and lane.synced_count == len(lane.items):
                continued.append((count, lane))
            shared = lane.count_shared(request) if lane.synced_count < len(lane.items) else 0
            known.append((max(count, len(wire.decode(request.items[:shared]))), lane))
        if continued:
            return max(continued, key=lambda found: found[0])[1]
        count, best = max(known, key=lambda found: found[0], default=(0, None))
        if best is not None and _is_one_conversation(messages[:count], family):
            return self._fork_lane(best, request.model)
        return self._create_lane(kin, family, messages, request, client)

    def _create_lane(
        self, kin: _Kin, family: Family, messages: Sequence[Message], request: ModelRequest, client: str
    ) -> Lane:
        said = [m for m in messages if m.role == "user"]
        first = next((m for m in said if m.origin == "human"), next(iter(said), None))
        title = " ".join(get_text(first).split())[:TITLE_LENGTH] if first is not None else ""
        id_ = f"{family.session_prefix}-{kin.session_count}"
        info = SessionInfo(id_, title=title, model=request.model, client=client)
        lane = Lane(self._open_session(SessionAddress(self._store, id_, self._namespace), request.model, info))
        kin.session_count += 1
        return lane

    def _fork_lane(self, origin: Lane, model: str) -> Lane:
        """Opens a head that branches off from a lane's. Its name is its own, whatever other gateways do meanwhile."""
        address = SessionAddress(self._store, origin.id, self._namespace, f"fork-{token_hex(4)}")
        return Lane(self._open_session(address, model, None), origin)


def _digest_end(wire: str, item: bytes) -> bytes:
    """Returns what is kept of a list's last item to know it again."""
    return hashlib.sha256(b"\0".join(fingerprint_item(wire, item))).digest()


def _is_one_conversation(shared: Iterable[Message], family: Family) -> bool:
    """Whether what a list shares with a known one shows that both are of one conversation: see `FORK_EVIDENCE`."""
    messages = list(shared)
    if not any(message.role == "assistant" for message in messages):
        return False
    given = sum(len(get_text(message)) for message in messages if message.origin in ("human", "tool"))
    return family.has_session_id or given >= FORK_EVIDENCE
