"""The view: what the model sees, as a pure fold of a path through its Blocks, and the rules it must keep.

May import: `record`, `wire`. `fold.View` is the view, `rules.validate` checks a list of messages for a provider.
"""
