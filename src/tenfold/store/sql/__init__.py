"""Keeps a store in SQL tables: what is the same for SQLite and for PostgreSQL.

May import: `record`, `view`, `text`, `meter`, `store.search`. Each database has a folder of its own beside this one,
for its connections, its tables and its search index.
"""
