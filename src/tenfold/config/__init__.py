"""What a user decides: policies, the presets, settings files, plug-ins and extensions.

May import: `summarize` and what lies below it. `policy.Policy` is the type that the engine works by.
"""
