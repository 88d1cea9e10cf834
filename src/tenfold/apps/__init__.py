"""What runs sessions for people and programs: the commands, the agent, the chat, the gateway, other tools' clients.

May import: everything below. An app imports another one only where the contracts in `pyproject.toml` say so.
"""
