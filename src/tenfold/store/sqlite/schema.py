"""The tables, as numbered migrations. The file's `user_version` is the number of migrations it has had.

A released migration is never edited. A change is a new migration at the end.

    namespace 1-n session 1-n seg 1-n entry 1-n count      seg: a stretch of a path without a fork; count: by counters
                                                           other than the one the entry was appended with
                          1-n head -> entry                manifest: the snapshot stored under an entry
"""

from __future__ import annotations

import sqlite3
import time

from tenfold.errors import NewerStore, StoreError, UnwritableStore

_PAUSE = 0.01  # seconds between two tries to change the journal mode
APPLICATION_ID = 0x54464C44  # "TFLD", in the file's header
INDEXED_MARK = "indexed"
"""Names the mark that holds the last indexed entry. To change what `entry_text` or `terms.build_index_text` give, add a
migration that empties both indexes and resets this mark, because an entry can only be removed from an index with the
very text that was put in."""
EMBEDDED_MARK = "embedded"
"""Names the mark that holds the last entry that has a vector, if the extra `tenfold[semantic]` is installed."""
TOKENIZER = "porter unicode61 tokenchars '_'"
"""How FTS5 makes terms of a passage: words and whole identifiers, without case and accents, cut to their stems."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE namespace (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        (
            "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL, name TEXT NOT NULL,"
            " info BLOB NOT NULL, UNIQUE (ns, name))"
        ),
        # AUTOINCREMENT: the chain of a segment is cached by its id, so an id must not be reused after a purge.
        (
            "CREATE TABLE seg (id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, parent INTEGER,"
            " start INTEGER NOT NULL)"
        ),
        "CREATE INDEX seg_session ON seg (session)",
        # The body comes last: SQLite reads the columns before it without touching the overflow pages of a long body.
        (
            "CREATE TABLE entry (seq INTEGER PRIMARY KEY, ns INTEGER NOT NULL, session INTEGER NOT NULL,"
            " seg INTEGER NOT NULL, pos INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, source TEXT NOT NULL,"
            " hash BLOB NOT NULL, rewritten BLOB, counter INTEGER, n INTEGER, body BLOB NOT NULL)"
        ),
        "CREATE UNIQUE INDEX entry_id ON entry (ns, id)",
        "CREATE UNIQUE INDEX entry_place ON entry (seg, pos)",
        "CREATE INDEX entry_quoting ON entry (session, seq) WHERE kind IN ('block', 'branch')",
        # The totals of what was appended by this head. They are here because every append writes this row anyway.
        (
            "CREATE TABLE head (session INTEGER NOT NULL, name TEXT NOT NULL, leaf INTEGER NOT NULL,"
            " entries INTEGER NOT NULL, blocks INTEGER NOT NULL, first INTEGER, last INTEGER,"
            " PRIMARY KEY (session, name)) WITHOUT ROWID"
        ),
        (
            "CREATE TABLE manifest (seq INTEGER PRIMARY KEY, seg INTEGER NOT NULL, pos INTEGER NOT NULL,"
            " body BLOB NOT NULL)"
        ),
        "CREATE UNIQUE INDEX manifest_place ON manifest (seg, pos)",
        "CREATE TABLE counter (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        (
            "CREATE TABLE count (counter INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,"
            " PRIMARY KEY (counter, seq)) WITHOUT ROWID"
        ),
        # Without text and offsets: the index only names candidates, which are then read and compared.
        "CREATE VIRTUAL TABLE words USING fts5(text, content='', detail=none, columnsize=0, tokenize='trigram')",
        "CREATE TABLE rest (seq INTEGER PRIMARY KEY)",
        "CREATE TABLE mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO mark VALUES ('indexed', 0)",
    ),
    (
        # The terms of each passage, for questions. Every entry is indexed again, now for both indexes.
        (
            "CREATE VIRTUAL TABLE passages USING fts5(text, content='', detail=none, columnsize=0,"
            " tokenize=\"ascii tokenchars '_'\")"
        ),
        "INSERT INTO words (words) VALUES ('delete-all')",
        "DELETE FROM rest",
        "UPDATE mark SET value = 0 WHERE name = 'indexed'",
    ),
    (
        # FTS5 itself makes the terms and ranks, for which it needs the offsets and sizes. All is indexed again.
        "DROP TABLE passages",
        "CREATE VIRTUAL TABLE passages USING fts5(text, content='', tokenize=\"porter unicode61 tokenchars '_'\")",
        "INSERT INTO words (words) VALUES ('delete-all')",
        "DELETE FROM rest",
        "UPDATE mark SET value = 0 WHERE name = 'indexed'",
    ),
    (
        # The texts are indexed without accents, and numbers also without what separates their digits.
        "INSERT INTO words (words) VALUES ('delete-all')",
        "INSERT INTO passages (passages) VALUES ('delete-all')",
        "DELETE FROM rest",
        "UPDATE mark SET value = 0 WHERE name = 'indexed'",
    ),
    (
        # How many purges a session has had: what was made before one of them may quote what is gone.
        "ALTER TABLE session ADD COLUMN purges INTEGER NOT NULL DEFAULT 0",
        # The files that a session was written to, each with the SHA-256 of what was written.
        (
            "CREATE TABLE export (session INTEGER NOT NULL, path TEXT NOT NULL, hash BLOB NOT NULL,"
            " PRIMARY KEY (session, path))"
        ),
    ),
    (
        # Of the last request: the usage that was reported for it, until its answer is appended, and our count of what
        # it held besides the list, NULL where no request was seen as a whole.
        "ALTER TABLE head ADD COLUMN pending BLOB",
        "ALTER TABLE head ADD COLUMN overhead INTEGER",
    ),
    (
        # The meanings of entries, in chunks, which only the extra `tenfold[semantic]` fills: 8 bytes for each row
        # number, and a byte for each number of its vector.
        (
            "CREATE TABLE vector (session INTEGER NOT NULL, first INTEGER NOT NULL, seqs BLOB NOT NULL,"
            " numbers BLOB NOT NULL, PRIMARY KEY (session, first))"
        ),
        # Results without any content have a text now. All is indexed again.
        "INSERT INTO words (words) VALUES ('delete-all')",
        "INSERT INTO passages (passages) VALUES ('delete-all')",
        "DELETE FROM rest",
        "UPDATE mark SET value = 0 WHERE name = 'indexed'",
    ),
    # Bodies may be compressed, and Blocks store what they change of the facts: older releases would misread both.
    (),
    (
        # The texts are indexed without vowel signs, and with one form of each letter. All is indexed again.
        "INSERT INTO words (words) VALUES ('delete-all')",
        "INSERT INTO passages (passages) VALUES ('delete-all')",
        "DELETE FROM rest",
        "UPDATE mark SET value = 0 WHERE name = 'indexed'",
    ),
    (
        # Which process has a model write a summary for a head, and until when nobody else does.
        (
            "CREATE TABLE lease (session INTEGER NOT NULL, head TEXT NOT NULL, holder TEXT NOT NULL,"
            " until INTEGER NOT NULL, PRIMARY KEY (session, head)) WITHOUT ROWID"
        ),
        # Keys of persons and programs, and the record of who did what, which nobody may change.
        "CREATE TABLE access_key (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE access_record (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, body BLOB NOT NULL)",
        (
            "CREATE TRIGGER access_record_stays BEFORE UPDATE ON access_record"
            " BEGIN SELECT RAISE (ABORT, 'the record of access is append-only'); END"
        ),
        (
            "CREATE TRIGGER access_record_is_kept BEFORE DELETE ON access_record"
            " BEGIN SELECT RAISE (ABORT, 'the record of access is append-only'); END"
        ),
    ),
)
_SELECT_VERSION = (
    "SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_master)"
    " FROM pragma_user_version AS v, pragma_application_id AS a"
)
SCHEMA_VERSION = len(MIGRATIONS)
"""The schema that this release writes."""


def migrate(db: sqlite3.Connection, path: str, *, busy_seconds: float = 0.0) -> None:
    """Brings the file to this release's schema in one transaction. Raises `NewerStore` if it is newer.

    `busy_seconds` is how long it waits for another process that does the same.
    """
    if _read_version(db, path) == SCHEMA_VERSION:
        return
    try:
        _set_wal_mode(db, path, busy_seconds)
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorname.startswith("SQLITE_READONLY"):
            raise UnwritableStore(
                f"the store {path} has schema {_read_version(db, path)} and must be brought to "
                f"{SCHEMA_VERSION}, but it is "
                "read-only: open it once where it can be written"
            ) from exc
        raise
    try:
        # Another process may have migrated the file while this one waited for the lock.
        for number in range(_read_version(db, path), SCHEMA_VERSION):
            for statement in MIGRATIONS[number]:
                db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _set_wal_mode(db: sqlite3.Connection, path: str, busy_seconds: float) -> None:
    """Turns on write-ahead mode. SQLite waits for no lock when it changes the mode, so this tries again."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as exc:
            if not exc.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            if mode not in ("wal", "memory"):
                raise StoreError(
                    f"the file system of the store {path} allows no write-ahead log (SQLite keeps to {mode!r}), so "
                    "several processes could damage it: name a place on a local disk with --store or TENFOLD_STORE"
                )
            return


def _read_version(db: sqlite3.Connection, path: str) -> int:
    # One statement, so that what another process is just making is seen as a whole or not at all.
    row: tuple[int, int, int] = db.execute(_SELECT_VERSION).fetchone()
    version, application, tables = row
    if application != APPLICATION_ID and (tables or version or application):
        raise StoreError(f"{path} is a database of another program, not a Tenfold store: name another file")
    if version > SCHEMA_VERSION:
        raise NewerStore(
            f"the store {path} has schema {version}, this release reads up to {SCHEMA_VERSION}: "
            "upgrade tenfold, or name "
            "another store with --store or TENFOLD_STORE"
        )
    return version
