"""What the model sees: a pure fold of a path through its Blocks, and the rules it keeps."""
