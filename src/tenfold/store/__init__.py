"""Stores sessions as append-only trees of entries: in one SQLite file, in memory, or in PostgreSQL.

May import: `record`, `view`, `text`, `meter.estimators`, `summarize.batches`. `base.Store` is the contract;
`location.open_store` opens one. `sql` has the tables and queries of both databases, `sqlite` and `postgres` what is
their own, `search` what is indexed and how hits are ranked. A store knows nothing of models and policies.
"""
