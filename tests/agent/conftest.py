"""What the tests of the agent start from: keys that open nothing, and nothing of the machine's own settings."""

from tests.models.conftest import keys

__all__ = ["keys"]
