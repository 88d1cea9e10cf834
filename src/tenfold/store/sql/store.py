"""A store in SQL tables. Opening a head costs O(view).

The other modules of this package do the work. This one only decides in which transaction it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.core.record.entry import Entry, Usage
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.fold import Snapshot
from tenfold.errors import NotFoundError, StoreError, UsageError
from tenfold.store.access import AccessKey, AccessRecord, seal_record
from tenfold.store.base import (
    HIT_LIMIT,
    MAIN,
    HeadState,
    Hit,
    LocatedEntry,
    Problem,
    SessionInfo,
    SessionRow,
    StoreState,
    redact_info,
)
from tenfold.store.retention import find_last_use
from tenfold.store.sql import append as appending
from tenfold.store.sql import paths, purging
from tenfold.store.sql.database import Connection, Database, DuplicateRow, IndexSearch, SearchIndex, SearchScope
from tenfold.store.sql.passages import search_passages
from tenfold.store.sql.paths import BODY, check_range, encode_info, find_entry_row, find_session_id, read_info
from tenfold.store.sql.stored_entries import find_scope
from tenfold.store.sql.verify import verify_namespace
from tenfold.store.sql.word_search import search_words
from tenfold.store.unreadable import read_entry

_UPSERT_SESSION = (
    "INSERT INTO session (ns, name, info) SELECT id, :session, :info FROM namespace WHERE name = :namespace"
    " ON CONFLICT (ns, name) DO UPDATE SET info = excluded.info"
)
_SELECT_INFO = "SELECT blob(s.info) FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ? AND s.name = ?"
_SELECT_SESSIONS = (
    "SELECT s.id, s.name, blob(s.info), CAST(coalesce(sum(h.entries), 0) AS BIGINT),"
    " CAST(coalesce(sum(h.blocks), 0) AS BIGINT), min(h.first), max(h.last)"
    " FROM session s JOIN namespace n ON n.id = s.ns LEFT JOIN head h ON h.session = s.id WHERE n.name = ?"
    " GROUP BY s.id ORDER BY s.id DESC"
)
_SELECT_SIZES = (
    "SELECT s.name, coalesce(sum(length(e.body)), 0) FROM session s JOIN namespace n ON n.id = s.ns"
    " LEFT JOIN entry e ON e.session = s.id WHERE n.name = ? GROUP BY s.id"
)
_SELECT_HEADS = "SELECT h.name, e.id FROM head h JOIN entry e ON e.seq = h.leaf WHERE h.session = ? ORDER BY h.name"
_SELECT_ENTRIES = (
    f"SELECT {BODY}, e.id, e.kind FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg IN (SELECT id FROM seg WHERE session = ?) ORDER BY e.seq"
)
_FIND_ENTRY = (
    f"SELECT s.name, e.pos, {BODY}, e.id, e.kind FROM namespace n"  # noqa: S608 - constants
    " JOIN entry e ON e.ns = n.id AND e.id >= :first AND e.id < :beyond"
    " JOIN session s ON s.id = e.session WHERE n.name = :namespace ORDER BY e.id LIMIT 2"
)
_SELECT_COUNTS = (
    "SELECT CASE WHEN e.counter = :counter THEN e.n"
    " ELSE (SELECT n FROM count WHERE counter = :counter AND seq = e.seq) END FROM entry e"
    " WHERE e.seg = :seg AND e.pos BETWEEN :low AND :high ORDER BY e.pos"
)


_TAKE_LEASE = (
    "INSERT INTO lease (session, head, holder, until) VALUES (?, ?, ?, ?) ON CONFLICT (session, head) DO UPDATE SET"
    " holder = excluded.holder, until = excluded.until WHERE lease.until <= ? OR lease.holder = excluded.holder"
)
_SAVE_KEY = "INSERT INTO access_key (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
_encoder = msgspec.msgpack.Encoder()
_key_decoder = msgspec.msgpack.Decoder(AccessKey)
_record_decoder = msgspec.msgpack.Decoder(AccessRecord)
_RECORD_EXPORT = (
    "INSERT INTO export (session, path, hash) VALUES (?, ?, ?)"
    " ON CONFLICT (session, path) DO UPDATE SET hash = excluded.hash"
)


T = TypeVar("T")
DatabaseT = TypeVar("DatabaseT", bound=Database)


class SqlStore(Generic[DatabaseT]):
    """A store whose tables are in a `database`, which `index` searches. See `Store`.

    With `redact_at_rest`, secrets are replaced by `[redacted]` before an entry is written. What is read, searched and
    exported later does not have them either, so an export of such messages is not byte for byte what came in. Entries
    that are stored already stay as they are.
    """

    def __init__(self, database: DatabaseT, index: SearchIndex, *, redact_at_rest: bool, compresses: bool) -> None:
        """`compresses` says that long entries are stored compressed."""
        self._database, self._index = database, index
        self._compresses = compresses
        self._chains = paths.ChainCache()
        self.redact_at_rest = redact_at_rest
        self.threads: Executor | None = None

    def create(self, namespace: str, info: SessionInfo) -> None:
        """See `Store.create`."""
        info = replace_surrogates(info)
        if self.redact_at_rest:
            info = redact_info(info)
        with self._database.write(namespace) as db:
            db.create_namespace(namespace)
            row = {"namespace": namespace, "session": info.id, "info": encode_info(info)}
            db.execute(_UPSERT_SESSION, row)

    def read_info(self, namespace: str, session: str) -> SessionInfo | None:
        """See `Store.read_info`."""
        with self._database.read(namespace) as db:
            row = db.execute(_SELECT_INFO, (namespace, session)).fetchone()
        return read_info(session, row[0]) if row is not None else None

    def list_namespaces(self) -> list[str]:
        """See `Store.list_namespaces`."""
        with self._database.read() as db:
            return [name for (name,) in db.execute("SELECT name FROM namespace ORDER BY name")]

    def list_sessions(self, namespace: str) -> list[SessionRow]:
        """See `Store.list_sessions`."""
        with self._database.read(namespace) as db:
            rows = db.execute(_SELECT_SESSIONS, (namespace,)).fetchall()
            out = [
                SessionRow(read_info(name, info), entries, blocks, first, last, dict(db.execute(_SELECT_HEADS, (sid,))))
                for sid, name, info, entries, blocks, first, last in rows
            ]
        return sorted(out, key=lambda row: find_last_use(row) or 0, reverse=True)

    def append(  # noqa: PLR0913  one append is one transaction, and these are its parts
        self,
        namespace: str,
        session: str,
        entries: Sequence[Entry],
        *,
        expected: str | None,
        head: str = MAIN,
        snapshot: Snapshot | None = None,
        counts: Mapping[str, Sequence[int]] | None = None,
        purges: int | None = None,
        knows_usage: bool = True,
    ) -> None:
        """See `Store.append`."""
        if self.redact_at_rest:
            entries = [redact_entry(entry) for entry in entries]
        new = appending.build_request(
            entries,
            expected=expected,
            head=head,
            snapshot=snapshot,
            counts=counts,
            purges=purges,
            knows_usage=knows_usage,
            compress=self._compresses,
        )
        try:
            with self._database.write(namespace) as db, db.batch():
                appending.append_entries(db, namespace, session, new)
        except DuplicateRow as exc:
            with self._database.read(namespace) as db:
                raise appending.build_stored_twice_error(db, namespace, entries) from exc

    def open(self, namespace: str, session: str, head: str = MAIN, *, after: str | None = None) -> HeadState:
        """See `Store.open`."""
        with self._database.read(namespace) as db:
            return paths.read_head(db, self._chains, find_session_id(db, namespace, session), head, after)

    def keep_request(
        self, namespace: str, session: str, head: str, *, usage: Usage | None, overhead: Counted | None
    ) -> None:
        """See `Store.keep_request`."""
        with self._database.write(namespace) as db:
            paths.write_request(db, find_session_id(db, namespace, session), head, usage, overhead)

    def take_lease(self, namespace: str, session: str, head: str, holder: str, *, now: int, until: int) -> bool:
        """See `Store.take_lease`."""
        with self._database.write(namespace) as db:
            values = (find_session_id(db, namespace, session), head, holder, until, now)
            return db.execute(_TAKE_LEASE, values).rowcount == 1

    def drop_lease(self, namespace: str, session: str, head: str, holder: str) -> None:
        """See `Store.drop_lease`."""
        with self._database.write(namespace) as db:
            values = (find_session_id(db, namespace, session), head, holder)
            db.execute("DELETE FROM lease WHERE session = ? AND head = ? AND holder = ?", values)

    def read_range(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """See `Store.read_range`."""
        with self._database.read(namespace) as db:
            leaf_row = find_entry_row(db, find_session_id(db, namespace, session), leaf)
            check_range(leaf_row, first, last)
            return paths.read_range(db, self._chains.get_chain(db, leaf_row.segment), first, last)

    def read_counts(
        self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int
    ) -> list[Counted | None]:
        """See `Store.read_counts`."""
        with self._database.read(namespace) as db:
            leaf_row = find_entry_row(db, find_session_id(db, namespace, session), leaf)
            check_range(leaf_row, first, last)
            row = db.execute("SELECT id FROM counter WHERE name = ?", (counter,)).fetchone()
            number = row[0] if row else 0
            ranges = self._chains.get_chain(db, leaf_row.segment).split_range(first, last)
            bounds = ({"counter": number, "seg": seg, "low": low, "high": high} for seg, low, high in ranges)
            return [row[0] for values in bounds for row in db.execute(_SELECT_COUNTS, values)]

    def read_entries(self, namespace: str, session: str) -> list[Entry]:
        """See `Store.read_entries`."""
        with self._database.read(namespace) as db:
            rows = db.execute(_SELECT_ENTRIES, (find_session_id(db, namespace, session),))
            return [read_entry(body, id_, kind) for body, id_, kind in rows]

    def locate(self, namespace: str, entry: str) -> LocatedEntry:
        """See `Store.locate`."""
        with self._database.read(namespace) as db:
            limits = {"namespace": namespace, "first": entry, "beyond": entry + "\U0010ffff"}
            rows = db.execute(_FIND_ENTRY, limits).fetchall() if entry else []
        if not rows:
            raise NotFoundError(
                f"no entry {entry or '(empty id)'} in namespace {namespace}: `tenfold search` finds entries"
            )
        if len(rows) > 1 and rows[0][3] != entry:
            first, second = rows[0][3], rows[1][3]
            raise NotFoundError(f"several entries begin with {entry}, {first} and {second} among them: give more of it")
        name, position, body, id_, kind = rows[0]
        return LocatedEntry(name, position, read_entry(body, id_, kind))

    def read_heads(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_heads`."""
        with self._database.read(namespace) as db:
            return dict(db.execute(_SELECT_HEADS, (find_session_id(db, namespace, session),)))

    def list_other_branches(self, namespace: str, session: str, leaf: str) -> frozenset[str]:
        """See `Store.list_other_branches`."""
        with self._database.read(namespace) as db:
            sid = find_session_id(db, namespace, session)
            return paths.list_other_branches(db, self._chains, sid, find_entry_row(db, sid, leaf))

    def index(self, *, limit: int = 2_000) -> int:
        """See `Store.index`."""
        if limit < 1:
            raise UsageError(f"a limit of {limit} entries never comes to an end: give at least 1")
        return self._index_scope(None, None, limit)

    def _index_scope(self, namespace: str | None, scope: SearchScope | None, limit: int = 2_000) -> int:
        with self._database.read(namespace) as db:
            if not self._index.has_late_entries(db, scope):
                return 0
        with self._database.write(namespace) as db:
            return self._index.index_entries(db, limit, scope)

    def search(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """See `Store.search`. If the index cannot be written, entries missing from it are scanned."""
        return self._run_search(namespace, session, lambda index: search_words(index, words, limit, without))

    def search_passages(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """See `Store.search_passages`. If the index cannot be written, entries missing from it are read."""
        return self._run_search(namespace, session, lambda index: search_passages(index, words, limit, without))

    def _run_search(self, namespace: str, session: str | None, search: Callable[[IndexSearch], list[Hit]]) -> list[Hit]:
        """Runs a search on indexes that are up to date. Damaged ones are built again from the entries."""
        try:
            with self._open_search(namespace, session) as index:
                return search(index)
        except StoreError as exc:
            if not self._has_index_damage(exc):
                raise
        with self._database.write(namespace) as db:
            self._index.clear(db)
        with self._open_search(namespace, session) as index:
            return search(index)

    @contextlib.contextmanager
    def _open_search(self, namespace: str, session: str | None) -> Iterator[IndexSearch]:
        with self._database.read(namespace) as db:
            scope = find_scope(db, namespace, session)
        with contextlib.suppress(StoreError):
            while self._index_scope(namespace, scope):
                pass
        with self._database.read(namespace) as db:
            yield self._index.open_search(db, scope)

    def _has_index_damage(self, error: StoreError) -> bool:  # noqa: ARG002 - a database that can have some tells
        """Tells whether an error came from a damaged search index, which holds nothing that the entries do not hold."""
        return False

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """See `Store.purge`."""
        with self._database.write(namespace) as db:
            db.lock_session(namespace, session)
            sid = find_session_id(db, namespace, session)
            if entry is None:
                touched = purging.purge_session(db, self._index, sid)
            else:
                touched = purging.purge_entry(db, self._index, self._chains, sid, entry, now)
        self._release_purged()
        return touched

    def _release_purged(self) -> None:
        """Makes sure that purged bytes are gone, as far as the database can."""

    def record_export(self, namespace: str, session: str, path: str, digest: bytes) -> None:
        """See `Store.record_export`."""
        with self._database.write(namespace) as db:
            sid = find_session_id(db, namespace, session)
            db.execute(_RECORD_EXPORT, (sid, path, digest))

    def list_exports(self, namespace: str, session: str) -> dict[str, bytes]:
        """See `Store.list_exports`."""
        query = "SELECT path, hash FROM export WHERE session = ? ORDER BY path"
        with self._database.read(namespace) as db:
            return dict(db.execute(query, (find_session_id(db, namespace, session),)))

    def measure_sessions(self, namespace: str) -> dict[str, int]:
        """See `Store.measure_sessions`."""
        with self._database.read(namespace) as db:
            return dict(db.execute(_SELECT_SIZES, (namespace,)))

    def verify(self, namespace: str, *, report: Callable[[int, int], None] | None = None) -> list[Problem]:
        """See `Store.verify`."""
        with self._database.read(namespace) as db:
            return verify_namespace(db, self._chains, namespace, self._find_damage(db), report)

    def _find_damage(self, db: Connection) -> Iterable[Problem]:  # noqa: ARG002 - a database that can tell does
        """Finds what is wrong with the database's own structures."""
        return ()

    def save_key(self, key: AccessKey) -> None:
        """See `Store.save_key`."""
        with self._database.write() as db:
            db.execute(_SAVE_KEY, (key.id, _encoder.encode(key)))

    def list_keys(self) -> list[AccessKey]:
        """See `Store.list_keys`."""
        with self._database.read() as db:
            keys = [_decode(_key_decoder, body) for (body,) in db.execute("SELECT blob(body) FROM access_key")]
        return sorted(keys, key=lambda key: key.created)

    def find_key(self, id: str) -> AccessKey | None:
        """See `Store.find_key`."""
        with self._database.read() as db:
            row = db.execute("SELECT blob(body) FROM access_key WHERE id = ?", (id,)).fetchone()
        return _decode(_key_decoder, row[0]) if row is not None else None

    def record_access(self, record: AccessRecord) -> AccessRecord:
        """See `Store.record_access`."""
        with self._database.write() as db:
            db.lock_record()
            last = db.execute("SELECT number, hash FROM access_record ORDER BY number DESC LIMIT 1").fetchone()
            number, before = last or (0, b"")
            sealed = seal_record(replace(record, number=number + 1), before)
            values = (sealed.number, sealed.hash, _encoder.encode(sealed))
            db.execute("INSERT INTO access_record (number, hash, body) VALUES (?, ?, ?)", values)
        return sealed

    def read_record(self, first: int = 1) -> list[AccessRecord]:
        """See `Store.read_record`."""
        query = "SELECT blob(body) FROM access_record WHERE number >= ? ORDER BY number"
        with self._database.read() as db:
            return [_decode(_record_decoder, body) for (body,) in db.execute(query, (first,))]

    def check(self) -> StoreState:
        """See `Store.check`."""
        with self._database.read() as db:
            counts = (f"SELECT count(*) FROM {table}" for table in ("namespace", "session", "entry"))  # noqa: S608 - constants
            namespaces, sessions, entries = (int(db.execute(query).fetchone()[0]) for query in counts)
            late = self._index.count_late_entries(db)
            return self._complete_state(db, StoreState("", 0, 0, namespaces, sessions, entries, late))

    def _complete_state(self, db: Connection, state: StoreState) -> StoreState:
        """Returns the state with what only the database itself knows."""
        raise NotImplementedError

    def close(self) -> None:
        """See `Store.close`."""
        self._database.close()


def _decode(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    """Decodes a key or a line of the record. Raises `StoreError` if its bytes are damaged."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise StoreError(f"a key or a line of the record of access is damaged ({exc}): restore a backup") from exc
