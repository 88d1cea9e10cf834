"""Makes the recorded sessions in `examples/sessions`: a scripted agent does real work in a real checkout.

    python examples/record.py [--out FOLDER] [NAME ...]

The agent is a script, not a model: what it says was written by hand. What it does is real: it runs git, Python's
tests, grep and sed in a temporary repository, edits files, sees tests fail and mends what they found. Paths of this
machine and timings are replaced; times are synthetic. Running it again gives the same bytes (with the same minor
version of Python, whose tracebacks are part of the outputs).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from examples.recorder import formats  # noqa: E402 - the checkout is on the path only now
from examples.recorder.session import Session  # noqa: E402
from examples.scenarios import desk, logs, pricing, tracker  # noqa: E402

RECORDED_WITH = (3, 11)


class Recording(NamedTuple):
    """A scenario, the file it is written to, and the format of that file."""

    play: Callable[[Path, Path], Session]
    file: str
    write: Callable[[Session], str]


RECORDINGS = {
    "pricing": Recording(pricing.play, "pricing.claude-code.jsonl", formats.render_claude_code),
    "logs": Recording(logs.play, "logs.pi.jsonl", formats.render_pi),
    "desk": Recording(desk.play, "desk.openai-chat.json", formats.render_openai_chat),
    "tracker": Recording(tracker.play, "tracker.codex.jsonl", formats.render_codex),
}


def record(name: str, out: Path) -> Path:
    """Plays one scenario in a temporary folder and writes its session into `out`."""
    recording = RECORDINGS[name]
    with tempfile.TemporaryDirectory(prefix="tenfold-example-") as temporary:
        session = recording.play(Path(temporary), HERE / "projects" / name)
    target = out / recording.file
    target.write_text(recording.write(session), encoding="utf-8", newline="\n")
    return target


def main() -> None:
    """Records the named sessions, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(RECORDINGS)}; default: all")
    parser.add_argument("--out", type=Path, default=HERE / "sessions")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(RECORDINGS))
    if unknown:
        parser.error(f"no such session: {', '.join(unknown)}; there are {', '.join(RECORDINGS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or RECORDINGS:
        target = record(name, given.out)
        print(f"{name}: {target.name}, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
