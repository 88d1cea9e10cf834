"""The gateway: an HTTP server between an agent and its provider that keeps the agent's requests within the window.

It may import the session and everything below it. It exports `Gateway`, the ASGI application, and `GatewaySettings`.
"""
