"""Compares meanings: finds what answers a question in other words. It needs the extra `tenfold[semantic]`.

Each entry has a vector: the mean of those that the package wordllama has for its tokens. Two texts are alike as far as
their vectors point the same way, apart from where all of them point. Vectors are made after the append, up to a
watermark of their own, and stored in chunks, because reading a row for each entry takes ten times as long.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tenfold.store.search.entry_text import read_plain_text
from tenfold.store.search.newer_first import Scored
from tenfold.store.sql.database import Connection
from tenfold.store.sql.paths import BODY
from tenfold.store.sqlite.passage_keys import build_passage_key, split_passage_key
from tenfold.store.sqlite.schema import EMBEDDED_MARK
from tenfold.store.unreadable import recover_entry

DIMENSIONS = 128
"""Numbers of a vector: the first half of the model's, which say most."""
_EMBEDDED_LENGTH = 2_000
"""Characters of an entry that its vector stands for, the first ones: a mean over more of them says less."""
_SCALE = 256
"""What the numbers of a vector of length 1 are multiplied by, so that a byte holds each."""
_STEP = 500
"""Entries that get their vectors in one transaction, at most."""
_CHUNK_SIZE = 128
_NEAREST = 128
"""Entries that may be hits for their meaning alone."""
_SAMPLE_SIZE = 4_096
"""Vectors, at most, of which the mean is taken."""
_SELECT_TEXTS = f"SELECT e.seq, e.session, {BODY} FROM entry e WHERE e.seq > ? ORDER BY e.seq LIMIT ?"  # noqa: S608 - constants
_SELECT_CHUNK = (
    "SELECT first, seqs, numbers FROM vector WHERE session = ? AND first <= ? AND length(numbers) = length(seqs) * ?"
    " ORDER BY first DESC LIMIT 1"
)
_SELECT_CHUNKS = (
    "SELECT session, seqs, numbers FROM vector WHERE session IN (SELECT value FROM json_each(?))"
    " AND length(numbers) = length(seqs) * ?"
)
_WRITE_CHUNK = "INSERT OR REPLACE INTO vector (session, first, seqs, numbers) VALUES (?, ?, ?, ?)"
_SELECT_MARK = "SELECT value FROM mark WHERE name = ? AND typeof(value) = 'integer'"
_WRITE_MARK = "INSERT INTO mark VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_BYTES_RATIO = DIMENSIONS // 8
"""Bytes of a chunk's numbers for each byte of its row numbers."""


class _Model:
    """The vectors of tokens, read from the files of the package: it is not imported, and nothing is downloaded."""

    def __init__(self, folder: Path) -> None:
        self.numpy: Any = import_module("numpy")
        weights = import_module("safetensors.numpy").load_file(folder / "weights" / "l2_supercat_256.safetensors")
        self._table = weights["embedding.weight"][:, :DIMENSIONS]
        names = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(names))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, text: str) -> Any:  # noqa: ANN401 - numpy's array; numpy is optional
        """Returns the vector of a text, of length 1, or zeros for a text without tokens."""
        clean = text[:_EMBEDDED_LENGTH].encode("utf-8", "replace").decode()
        tokens = self._tokenizer.encode(clean, add_special_tokens=False).ids
        if not tokens:
            return self.numpy.zeros(DIMENSIONS, self.numpy.float32)
        mean = self._table[tokens].astype(self.numpy.float32).mean(0)
        return mean / max(float(self.numpy.linalg.norm(mean)), 1e-9)

    def encode(self, text: str) -> bytes:
        """Returns the vector of a text as it is stored."""
        scaled = self.numpy.rint(self.embed(text) * _SCALE)
        return bytes(self.numpy.clip(scaled, -127, 127).astype(self.numpy.int8).tobytes())


@cache
def _load_model() -> _Model | None:
    """Loads the model once, which takes a tenth of a second. None without the extra."""
    spec = find_spec("wordllama")
    return _Model(Path(spec.origin).parent) if spec is not None and spec.origin else None


def has_unembedded(db: Connection) -> bool:
    """Tells whether there are entries without a vector that could have one."""
    if find_spec("wordllama") is None:
        return False
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]) > _read_mark(db)


def embed_entries(db: Connection, limit: int) -> int:
    """Makes the vectors of up to `limit` entries after the watermark. Must run in a transaction. Returns how many."""
    model = _load_model()
    if model is None:
        return 0
    rows = db.execute(_SELECT_TEXTS, (_read_mark(db), min(limit, _STEP))).fetchall()
    vectors: dict[int, list[tuple[int, bytes]]] = {}
    for seq, session, body in rows:
        entry = recover_entry(body)
        text = read_plain_text(entry).text if entry is not None else ""
        if text.strip():
            vectors.setdefault(session, []).append((seq, model.encode(text)))
    for session, pieces in vectors.items():
        _append_vectors(db, session, pieces)
    if rows:
        db.execute(_WRITE_MARK, (EMBEDDED_MARK, rows[-1][0]))
    return len(rows)


def remove_vector(db: Connection, session: int, seq: int) -> None:
    """Overwrites the vector of an entry that is about to change. It is not made again: the words still find it."""
    for first, stored, numbers in db.execute(_SELECT_CHUNK, (session, seq, _BYTES_RATIO)).fetchall():
        seqs = array("q", stored)
        if seq in seqs:
            start = (place := seqs.index(seq)) * DIMENSIONS
            seqs[place] = 0
            clean = numbers[:start] + bytes(DIMENSIONS) + numbers[start + DIMENSIONS :]
            db.execute(_WRITE_CHUNK, (session, first, seqs.tobytes(), clean))


def remove_session_vectors(db: Connection, session: int) -> None:
    """Removes all vectors of a session."""
    db.execute("DELETE FROM vector WHERE session = ?", (session,))


def add_meanings(
    db: Connection, question: str, sessions: Collection[int], scored: list[Scored], left_out: Collection[int]
) -> list[Scored]:
    """Adds to the scores of entries how much they are alike to the question, and the entries that are most alike.

    Both scores are standardised first: each is how many standard deviations it lies above the mean of all entries.
    Without the extra the scores stay as they are.
    """
    model = _load_model()
    rows = db.execute(_SELECT_CHUNKS, (json.dumps(list(sessions)), _BYTES_RATIO)).fetchall() if model else []
    if model is None or not rows:
        return scored
    np = model.numpy
    seqs = np.frombuffer(b"".join([stored for _, stored, _ in rows]), np.int64)
    owners = np.repeat([session for session, *_ in rows], [len(stored) // 8 for _, stored, _ in rows])
    alike = _compare(model, question, np.frombuffer(b"".join([each for *_, each in rows]), np.int8))
    alike[np.isin(seqs, [0, *left_out])] = alike.min()
    words = {split_passage_key(key)[0]: (key, score) for key, score in scored}
    mean = sum(score for _, score in scored) / len(seqs)
    spread = math.sqrt(max(0.0, sum(score * score for _, score in scored) / len(seqs) - mean * mean)) or 1.0
    nearest = np.argpartition(-alike, min(_NEAREST, len(seqs)) - 1)[:_NEAREST]
    places = np.union1d(nearest, np.flatnonzero(np.isin(seqs, list(words)))).tolist()
    out = {seq: (key, (score - mean) / spread) for seq, (key, score) in words.items()}
    for place in places:
        seq = int(seqs[place])
        key, score = out.get(seq, (build_passage_key(int(owners[place]), seq), -mean / spread))
        out[seq] = (key, score + float(alike[place]))
    return list(out.values())


def _compare(model: _Model, question: str, numbers: Any) -> Any:  # noqa: ANN401 - numpy's arrays
    """Returns how much each of the stored vectors is alike to the question, standardised."""
    np = model.numpy
    vectors = numbers.reshape(-1, DIMENSIONS)
    sample = vectors[:: max(1, len(vectors) // _SAMPLE_SIZE)]
    sought = model.embed(question) * _SCALE - sample.mean(0, dtype=np.float32)
    # In pieces that stay in the processor's cache, since the bytes become four times as large.
    pieces = range(0, len(vectors), 2_048)
    alike = np.concatenate([vectors[at : at + 2_048].astype(np.float32) @ sought for at in pieces])
    return (alike - alike.mean()) / max(float(alike.std()), 1e-9)


def _append_vectors(db: Connection, session: int, pieces: Sequence[tuple[int, bytes]]) -> None:
    """Appends vectors to the session's last chunk until it is full, and then to new ones."""
    seqs, numbers = array("q", [seq for seq, _ in pieces]), b"".join(each for _, each in pieces)
    last = db.execute(_SELECT_CHUNK, (session, pieces[0][0], _BYTES_RATIO)).fetchone()
    first = pieces[0][0]
    if last is not None and len(last[1]) < _CHUNK_SIZE * 8:
        first, seqs, numbers = last[0], array("q", last[1]) + seqs, last[2] + numbers
    for start in range(0, len(seqs), _CHUNK_SIZE):
        some = seqs[start : start + _CHUNK_SIZE]
        piece = numbers[start * DIMENSIONS : (start + _CHUNK_SIZE) * DIMENSIONS]
        db.execute(_WRITE_CHUNK, (session, some[0] if start else first, some.tobytes(), piece))


def _read_mark(db: Connection) -> int:
    row = db.execute(_SELECT_MARK, (EMBEDDED_MARK,)).fetchone()
    return max(0, int(row[0])) if row is not None else 0
