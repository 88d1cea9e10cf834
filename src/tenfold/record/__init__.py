"""Nouns of the log as frozen values, and their bytes. No behaviour beyond themselves."""
