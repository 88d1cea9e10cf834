"""Pure functions on strings that every part uses: excerpts, redaction, terminal-safe text, fences, memoization.

May import: `errors`. Nothing here knows of messages.
"""
