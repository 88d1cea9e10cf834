"""Measures how many tokens a view takes, how sure we are, and how large the window is.

May import: `record`, `wire`, `view`, `text`. `reading.Reading` is the result; `counters` and `windows` hold the tables.
"""
