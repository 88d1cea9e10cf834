"""The parts behind `examples/record.py`: a checkout to work in, a session that is recorded, and the file formats."""
