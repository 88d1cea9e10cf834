"""A list of things to do, in one JSON file."""
