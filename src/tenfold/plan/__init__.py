"""Plans what becomes of each range of whole units. A Plan is a value that prints itself before it runs."""
