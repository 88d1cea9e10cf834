"""Finds, reads and expands what the view no longer shows, for the user and for the model itself."""
