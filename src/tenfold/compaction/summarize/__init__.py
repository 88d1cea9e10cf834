"""Writes the text that stands for a range: prompts, writers with and without a model, checks, and the ladder.

May import: `plan` and what lies below it. `fill` turns a Plan into replacements; the prompts are files in `prompts/`.
"""
