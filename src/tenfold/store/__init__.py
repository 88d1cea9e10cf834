"""Stores sessions as append-only trees of entries, in one SQLite file or in memory.

May import: `record`, `view`, `text`, `meter.estimators`, `summarize.batches`. `base.Store` is the contract;
`location.open_store` opens one. A store knows nothing of models and policies.
"""
