"""Work that outlives a request: summaries, indexing, retention, exports and copies, as durable jobs.

A job is a workflow of DBOS, kept in a database of its own beside the store: a file beside a file, a schema in the same
PostgreSQL. `JobQueue` adds and lists jobs, `Worker` does them, and `JobPreparer` has a session's summaries written by
them. If a worker dies at any step, another goes on from the last step that was stored.
"""

from __future__ import annotations

from tenfold.errors import UsageError

try:
    import dbos  # noqa: F401 - it may be missing, and what to install is said once, here
except ImportError as exc:
    raise UsageError(f"jobs need {exc.name}, which is not installed: pip install 'tenfold[jobs]'") from exc
