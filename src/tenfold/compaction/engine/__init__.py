"""One compaction, from a view to a Block, without I/O. Read `compact.py` first.

May import: `summarize` and what lies below it. `compact` yields Asks and receives Answers; the drivers, one for threads
and one for coroutines, stand in `session/drive.py`.
"""
