"""The values that the log stores: messages, entries and Blocks, frozen, and their encoding to bytes.

Nothing here does any work on them. This package imports only `tenfold.errors`.
"""
