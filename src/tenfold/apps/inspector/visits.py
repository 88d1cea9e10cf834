"""A request for a page, and the sessions that are held open so that a piece of a long list needs no new fold."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct
from starlette.responses import Response

from tenfold.apps.inspector.readings import Readings
from tenfold.apps.inspector.rules_in_view import InstructionList, list_instructions
from tenfold.apps.inspector.timeline import MeasuredSession, Timeline, build_timeline, measure_session
from tenfold.apps.keyring import Access, Keyring, note_access
from tenfold.core.record.ask import Outcome
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.store.base import SessionRow, Store
from tenfold.store.lookup import find_session, list_heads

MOST_OPEN = 64
"""Sessions that are held open, so that a piece of a long list needs no new fold."""


class SessionKeeper(Protocol):
    """What the pages need of the program that shows them: its settings, and what it keeps beside the store."""

    def open(
        self, store: Store, row: SessionRow, *, namespace: str, head: str, policy: str = "", model: str = ""
    ) -> Session:
        """Opens a head of a session with a policy of the settings, "" for the usual one.

        `model` is the one that writes its summaries, "" for those of the settings. Raises `UsageError` for one that
        cannot be asked.
        """
        ...

    def list_policies(self) -> list[str]:
        """Lists the names of the policies that there are."""
        ...

    def purge_jobs(self, namespace: str, session: str) -> None:
        """Deletes what durable jobs hold of a session, before it is purged."""
        ...


class OpenSession:
    """A session that is held open, with what is known of its entries. `lock` is held while a request uses it.

    `quiet_until` is the size up to which its visitors do not want to hear that it will be compacted, and `outcome` that
    of the compaction that was made last from the pages.
    """

    def __init__(self, session: Session, row: SessionRow) -> None:
        self.session, self.row, self.lock = session, row, threading.Lock()
        self.quiet_until = 0
        self.outcome: Outcome | None = None
        self._measured: MeasuredSession | None = None
        self._timeline: tuple[MeasuredSession, Timeline] | None = None
        self._instructions: tuple[MeasuredSession, InstructionList] | None = None

    def measure(self) -> MeasuredSession:
        """Reads what others have appended, and returns the session with the sizes of its entries."""
        self.session.conversation.catch_up()
        if self._measured is None or self._measured.view is not self.session.view:
            self._measured = measure_session(self.session)
        return self._measured

    def draw(self) -> Timeline:
        """Returns the bars of the session as it is now."""
        measured = self.measure()
        if self._timeline is None or self._timeline[0] is not measured:
            self._timeline = measured, build_timeline(measured)
        return self._timeline[1]

    def list_instructions(self) -> InstructionList:
        """Lists what the user asked for, each rule with whether the model sees it now."""
        measured = self.measure()
        if self._instructions is None or self._instructions[0] is not measured:
            self._instructions = measured, list_instructions(measured)
        return self._instructions[1]


class PageSources(Struct, frozen=True):
    """What the pages show besides the store.

    `gateways` are the addresses of those whose requests are shown, and `gateway_key` is the owner's key of them.
    `readings` are shown to the owner alone.
    """

    gateways: tuple[str, ...] = ()
    gateway_key: str = ""
    readings: Readings | None = None


NO_SOURCES = PageSources()


class OpenSessions:
    """The sessions of a store that were looked at last, each held open."""

    def __init__(
        self, store: Store, keeper: SessionKeeper, keyring: Keyring | None, sources: PageSources = NO_SOURCES
    ) -> None:
        self.store, self.keeper, self.keyring, self.sources = store, keeper, keyring, sources
        self._open: OrderedDict[tuple[str, str, str], OpenSession] = OrderedDict()
        self._opening: dict[tuple[str, str, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def open(self, namespace: str, session: str, head: str = "") -> OpenSession:
        """Returns a session that is held open, or opens it. Raises `NotFoundError` if there is none of that id."""
        if self.store.read_info(namespace, session) is None:
            session = find_session(self.store, session, namespace=namespace).info.id
        head = head or list_heads(self.store, session, namespace=namespace)[0]
        key = namespace, session, head
        with self._lock:
            held = self._open.get(key)
            opening = self._opening.setdefault(key, threading.Lock())
        try:
            held = held or self._open_once(key, opening)
        finally:
            with self._lock:
                self._opening.pop(key, None)
        with self._lock:
            held = self._open.setdefault(key, held)
            self._open.move_to_end(key)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return held

    def _open_once(self, key: tuple[str, str, str], opening: threading.Lock) -> OpenSession:
        """Opens a session, or waits for whoever is at it. A long one takes a while, and others need not wait for it."""
        namespace, session, head = key
        with opening:
            with self._lock:
                held = self._open.get(key)
            if held is not None:
                return held
            row = find_session(self.store, session, namespace=namespace)
            held = OpenSession(self.keeper.open(self.store, row, namespace=namespace, head=head), row)
            with self._lock:
                return self._open.setdefault(key, held)

    def forget(self, namespace: str, session: str) -> None:
        """Closes a session that was purged."""
        with self._lock:
            for key in [key for key in self._open if key[:2] == (namespace, session)]:
                del self._open[key]


class Visit:
    """One request for a page: who asks, with which fields, and the session that it names, if it names one."""

    def __init__(
        self, sessions: OpenSessions, access: Access, query: Mapping[str, str], form: Mapping[str, str], key: str = ""
    ) -> None:
        """`key` is the one that the visitor has signed in with, "" for the owner."""
        self.sessions, self.access, self.query, self.form, self._key = sessions, access, query, form, key

    @property
    def store(self) -> Store:
        """The store whose sessions are shown."""
        return self.sessions.store

    @property
    def namespace(self) -> str:
        """The tenant whose sessions this visitor sees."""
        return self.access.namespace

    @property
    def gateway_key(self) -> str:
        """The key by which a gateway is asked for this visitor: the visitor's own, so that it tells no more."""
        return self.sessions.sources.gateway_key if self.sessions.keyring is None else self._key

    def is_still_let_in(self) -> bool:
        """Tells whether the visitor's key is still valid."""
        keyring = self.sessions.keyring
        return keyring is None or keyring.open(self._key) is not None

    def get(self, name: str, default: str = "") -> str:
        """Returns a field of the form, or else of the address."""
        return self.form.get(name, self.query.get(name, default))

    def get_number(self, name: str, default: int = 0) -> int:
        """Returns a field as a whole number. Raises `UsageError` for anything else."""
        text = self.get(name, str(default)).replace(",", "").strip()
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{name} is {text[:40]!r}: it is a whole number") from None

    def open(self) -> OpenSession:
        """Opens the session that the request names. Raises `NotFoundError` if there is none of that id."""
        return self.sessions.open(self.namespace, self.get("id"), self.get("head"))

    def require_write(self, action: str) -> None:
        """Raises `UsageError` if this visitor may only read."""
        if self.access.is_read_only:
            raise UsageError(f"your key may only read: sign in with another to {action}")

    @property
    def readings(self) -> Readings | None:
        """The readings that may be shown to this visitor: they belong to the person who started the pages."""
        return self.sessions.sources.readings if self.sessions.keyring is None else None

    def note(self, action: str, target: str) -> None:
        """Notes in the store's record what was done, where the store keeps one."""
        if self.sessions.keyring is not None:
            self.sessions.keyring.note(self.access, "inspector", action, target)
        else:
            note_access(self.store, self.namespace, action, target, source="inspector")


Page = Callable[[Visit], Response]
"""Answers a visit. It runs in a thread, and may raise any `TenfoldError`, which becomes a page that says so."""
