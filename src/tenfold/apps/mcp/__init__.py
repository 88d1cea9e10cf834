"""The MCP server: lets any MCP client look up the user's stored sessions. It only reads.

It may import the session and everything below it. It exports `SessionTools`, the tools as plain methods, and
`build_server`; both modules need the extra `tenfold[mcp]` only where they name it.
"""
