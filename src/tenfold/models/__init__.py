"""Model calls: the protocol of a model, and a public scripted model for tests and demos."""

from tenfold.models.model import Model
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply

__all__ = ["Model", "ScriptedModel", "ScriptedReply"]
