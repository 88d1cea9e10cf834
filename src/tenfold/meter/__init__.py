"""Measures how many tokens a view takes, how sure we are, and how large the window is."""
