"""The command line, as the tests of the command have it."""

from tests.cli.conftest import tenfold

__all__ = ["tenfold"]
