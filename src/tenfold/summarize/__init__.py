"""Writes the text that stands for a range: prompts, writers with and without a model, checks, and the ladder."""
