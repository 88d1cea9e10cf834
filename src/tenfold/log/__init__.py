"""The log: append-only trees of entries, in memory or in SQLite. `place.open_store` opens one."""
