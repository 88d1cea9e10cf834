"""The text that stands for a range: facts by code, a narrative by a model or without one, checks, and the ladder."""
