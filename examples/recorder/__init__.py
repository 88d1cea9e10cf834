"""The machinery of `examples/record.py`: a checkout to work in, a session that is written down, and its formats."""
