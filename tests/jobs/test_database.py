"""What every connection to a file with jobs is told."""

from __future__ import annotations

import time
from pathlib import Path

import sqlalchemy as sa

from tenfold.apps.jobs.database import find_jobs_url


def test_an_older_sqlite_tells_the_time_of_jobs_in_milliseconds(tmp_path: Path) -> None:
    """DBOS asks for it from Python 3.12 on. SQLite before 3.42 says NULL, and no job could be added."""
    engine = sa.create_engine(find_jobs_url(str(tmp_path / "store.db")), poolclass=sa.NullPool)
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE job (id TEXT, made INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))"))
        before = time.time_ns() // 1_000_000
        db.execute(sa.text("INSERT INTO job (id) VALUES ('a')"))
        made = db.scalar(sa.text("SELECT made FROM job"))
    engine.dispose()
    assert before <= int(made) <= time.time_ns() // 1_000_000
