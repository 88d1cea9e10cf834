"""Prints the lines of code of folders, without blank lines, comments and docstrings. `make lint` shows them."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code_lines(text: str) -> int:
    """Counts the lines of a module on which a token of code stands. A text that stands alone is a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        size = sum(count_code_lines(path.read_text("utf-8")) for path in sorted(Path(folder).rglob("*.py")))
        print(f"{folder}: {size:,} lines of code")
