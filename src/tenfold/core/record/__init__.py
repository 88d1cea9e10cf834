"""The values that the log stores: messages, entries and Blocks, frozen, and their encoding to bytes.

May import: `errors`. Nothing here does any work on these values.
"""
