"""The five published designs under their own names, one package each.

Come here if you know one of these designs and look for one of its names; docs/presets.md lists them all. This code only
translates names: what is compacted, and how, is decided by the presets in `policies` and by the engine.
"""
