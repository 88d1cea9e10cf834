"""Installs Tenfold into other agents: their MCP settings, a plugin with hooks, extensions. Each is removed again.

It may import the session and everything below it. It exports `build_setup` of `client_setups`, and `plan_install` and
`plan_removal` of `planned_changes`.
"""
