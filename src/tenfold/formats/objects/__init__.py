"""The message objects of agent frameworks, converted to a provider's messages and back.

`to_messages` and `from_messages` convert lists. Each framework has a module here with its converter, and an adapter of
the same name in `tenfold.apps.adapters`, which switches Tenfold on in an agent.
"""

from __future__ import annotations

from tenfold.formats.objects.conversion import (
    FRAMEWORKS,
    Converter,
    ObjectList,
    find_converter,
    from_messages,
    to_messages,
)

__all__ = ["FRAMEWORKS", "Converter", "ObjectList", "find_converter", "from_messages", "to_messages"]
