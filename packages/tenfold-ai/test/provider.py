"""A provider on loopback whose model reads sixty files: `python provider.py WINDOW FOLDER`.

It prints its address. Each line `next` on standard input begins another task of thirty steps. When that ends, it prints
what was asked of it as one line of JSON.
"""  # noqa: INP001 - a script, run by path

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.adapters.host_runs import HostProvider
from tests.live.client_runs import write_parts
from tests.live.scripted_provider import BYTES_PER_TOKEN


def main() -> None:
    """Serves until standard input ends."""
    window, folder = int(sys.argv[1]), Path(sys.argv[2])
    write_parts(folder)
    with HostProvider(window=window, folder=str(folder)) as provider:
        _tell(provider.url)
        for line in sys.stdin:
            if line.strip() == "next":
                provider.start_task()
        counts = {
            "steps": provider.step,
            "ends": provider.count("end"),
            "requests": len(provider.answered),
            "refusals": provider.list_refusals(),
            "largest": max((each.size for each in provider.answered), default=0) // BYTES_PER_TOKEN,
            "cached": round(provider.compute_cached_share(), 3),
            "last": provider.requests[-1].body if provider.requests else None,
        }
        _tell(json.dumps(counts))


def _tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it reports on standard output


main()
