"""The store in one SQLite file or in memory. `store.SqliteStore` implements the contract `store.base.Store`."""
