"""The view: what the model sees. It is a pure fold of a path through its Blocks, and the rules it must keep."""
