"""Stores sessions as append-only trees of entries, in memory or in one SQLite file.

A store knows nothing of models and policies. `location.open_store` opens one.
"""
