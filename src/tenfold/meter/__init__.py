"""How many tokens a view takes, how sure we are, and out of which window."""
