"""Makes environments of pinned packages for what is no part of the package: kits, adapters, clients.

    python -m yardstick.scripts.make_environments FROM INTO [NAME...]

makes `INTO/NAME` from `FROM/NAME/requirements.txt`, for the names or for all of them. What cannot be installed is said,
written to `INTO/NAME.failed` for the pages, and does not stop the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tenfold_yardstick.environments import is_current, list_environments, make_environment


def main(source: Path, folder: Path, names: list[str]) -> None:
    """Makes one environment after the other. One whose requirements did not change is left alone."""
    known = list_environments(source)
    for name in names or known:
        if name not in known:
            sys.exit(f"tenfold: {source} has no {name!r}; there are {', '.join(known)}")
        if not is_current(source, folder, name):
            print(f"tenfold: making {folder / name}", flush=True)
            reason = make_environment(source, folder, name)
            if reason:
                print(f"tenfold: {name} left out: {reason}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m yardstick.scripts.make_environments FROM INTO [NAME...]")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
