"""The published designs by their own names: one module each, thin over the engine and the session.

For those who know one of the designs and look for a name of it; docs/presets.md lists all of them. Nothing here decides
or writes anything that `policies` and the engine do not.
"""
