"""What a conversation is: messages, entries and Blocks, their wire formats, the view, and how many tokens it takes.

May import: `errors`, `events`. Pure: no I/O, no clock, no randomness, no logging. Read `record` first,
then `view/fold.py`.
"""
