"""From a view to a Block: whether to act, what becomes of each range, and how a summary is written and checked.

May import: `core`. Pure, as `core` is. `engine/compact.py` is the page to read first, and the policy `tenfold` stands
beside it. What answers its Asks, and does the I/O, is `session/drive.py`.
"""
