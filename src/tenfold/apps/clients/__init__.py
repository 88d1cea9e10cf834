"""The clients whose sessions lie on this machine: where they are, and how a compacted session gets back into one."""
