"""Decides when to compact and down to what. The guards against useless attempts are derived from the log.

May import: `record`, `meter`. `limits` turns a window into sizes, `guard.decide` returns a Decision.
"""
