"""Finds, reads and expands what the view no longer shows, for the user and for the model itself.

May import: `store` and what lies below it. `search` ranks, `expand` opens a Block, `tools` is what a model is given.
"""
