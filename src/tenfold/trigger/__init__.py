"""When to compact, and down to what; guards derived from the log."""
