"""Model calls: the protocol a model is answered through, and the public scripted model for tests and demos."""

from tenfold.llm.model import Model
from tenfold.llm.scripted import Reply, ScriptedModel

__all__ = ["Model", "Reply", "ScriptedModel"]
