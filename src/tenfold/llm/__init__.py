"""Model calls: the protocol of a model, and a public scripted model for tests and demos."""

from tenfold.llm.model import Model
from tenfold.llm.scripted_model import ScriptedModel, ScriptedReply

__all__ = ["Model", "ScriptedModel", "ScriptedReply"]
