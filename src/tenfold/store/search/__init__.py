"""Full-text search over a store: what is indexed, how words are split and matched, and which passages are shown."""
