"""Keeps the store in PostgreSQL, for many processes on many machines. It needs the extra `tenfold[postgres]`."""
