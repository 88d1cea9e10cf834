"""How much of the costly checks a run of the tests does: a fixed part of them, or all.

`make test` has to end within ten minutes on two idle cores, so some checks over every recorded session take a part
there. `make thorough` sets `TENFOLD_THOROUGH` and takes all of it. The mark `costly(every)` does so for the cases of
each parametrised test of a file.
"""

from __future__ import annotations

import os
import zlib

IS_THOROUGH = "TENFOLD_THOROUGH" in os.environ


def is_taken(name: str, number: int, every: int) -> bool:
    """Tells whether the case `number` of those called `name` is taken: all in a thorough run, else one of `every`.

    Which one depends on the name, so that different sessions leave out different cases.
    """
    return IS_THOROUGH or (number + zlib.crc32(name.encode())) % every == 0
