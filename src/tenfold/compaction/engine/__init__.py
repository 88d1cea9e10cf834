"""One compaction from view to Block, and the driver that runs it. Read `compact.py` first.

May import: `config.policy`, `summarize` and what lies below it. `compact` has no I/O; `drive` answers its Asks, both
synchronously and asynchronously.
"""
