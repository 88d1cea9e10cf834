"""Finding, reading and expanding what no view shows any more."""
