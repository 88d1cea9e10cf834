"""The scripts: what the user says, what the agent does, in which order."""
