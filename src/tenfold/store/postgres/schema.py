"""The tables in PostgreSQL, as numbered migrations in plain SQL: `migrations/NNNN_what.sql`.

All are in the schema `tenfold` of the database. The table `schema_version` has one row: the number of the last
migration. A released migration is never edited. A change is a new file.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import psycopg

from tenfold.errors import NewerStore, StoreError

SCHEMA = "tenfold"
_LOCK = 0x54464C44
"""The advisory lock that is held while the tables are migrated: "TFLD"."""


@cache
def load_migrations() -> tuple[str, ...]:
    """Loads the migrations, in their order."""
    folder = files(__package__) / "migrations"
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)


def read_version(db: psycopg.Connection) -> int:
    """Reads how many migrations the database has had, 0 if it holds no store."""
    if db.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.schema_version",)).fetchone() == (None,):
        return 0
    row = db.execute(f"SELECT version FROM {SCHEMA}.schema_version").fetchone()  # noqa: S608 - a constant
    return int(row[0]) if row else 0


def check_version(db: psycopg.Connection, place: str) -> None:
    """Raises `NewerStore` or `StoreError` unless the tables are those of this release."""
    version, own = read_version(db), len(load_migrations())
    if version > own:
        raise NewerStore(
            f"the store {place} has schema {version}, this release reads up to {own}: upgrade tenfold, or name another "
            "store with --store or TENFOLD_STORE"
        )
    if version < own:
        raise StoreError(
            f"the store {place} has schema {version}, and this release needs {own}: `tenfold store migrate`"
        )


def migrate(db: psycopg.Connection, place: str) -> tuple[int, int]:
    """Brings the tables to this release's schema in one transaction. Returns the versions before and after.

    A second process that does the same at once waits, and finds nothing left to do. Raises `NewerStore` if the tables
    are newer.
    """
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        before = read_version(db)
        migrations = load_migrations()
        if before > len(migrations):
            check_version(db, place)
        if before < len(migrations):
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            db.execute(f"SET LOCAL search_path = {SCHEMA}, public")
            for text in migrations[before:]:
                db.execute(text.encode())
            db.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
            db.execute("DELETE FROM schema_version")
            db.execute("INSERT INTO schema_version VALUES (%s)", (len(migrations),))
    return before, len(migrations)
