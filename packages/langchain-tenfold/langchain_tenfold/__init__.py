"""Tenfold for LangChain and LangGraph: `create_agent(model, tools, middleware=[TenfoldMiddleware()])`."""

from __future__ import annotations

from tenfold.apps.adapters.langchain import TenfoldMiddleware

__all__ = ["TenfoldMiddleware"]
