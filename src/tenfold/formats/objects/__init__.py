"""The message objects of agent frameworks, converted to a provider's messages and back.

`to_messages` and `from_messages` convert lists. Each framework has a module here with its converter, and an adapter of
the same name in `tenfold.apps.adapters`, which switches Tenfold on in an agent.
"""

from __future__ import annotations

from tenfold.formats.objects.conversion import (
    FRAMEWORKS,
    Converter,
    find_converter,
    from_messages,
    place_objects,
    to_messages,
)

__all__ = ["FRAMEWORKS", "Converter", "find_converter", "from_messages", "place_objects", "to_messages"]
