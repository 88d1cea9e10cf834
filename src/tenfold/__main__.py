"""Lets `python -m tenfold` do the same as the command `tenfold`."""

from __future__ import annotations

from tenfold.apps.cli.main import main

if __name__ == "__main__":
    main()
