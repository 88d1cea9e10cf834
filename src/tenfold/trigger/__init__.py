"""When to compact, and down to what; with guards that are derived from the log."""
