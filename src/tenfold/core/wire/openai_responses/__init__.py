"""OpenAI Responses: its profile, its messages, and in `api` its HTTP side and the whole wire."""
