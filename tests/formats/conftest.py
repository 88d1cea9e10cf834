"""The command line, for what is tested through it."""

from tests.cli.conftest import tenfold

__all__ = ["tenfold"]
