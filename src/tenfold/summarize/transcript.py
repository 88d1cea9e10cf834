"""The input of a summarising model: a range of messages as chronological text, bounded per part.

Its own renderer, apart from what the model sees in the conversation and from what people see in a terminal. Every
part keeps its head and tail with the gap stated in lines; what tools printed is fenced as data.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.record.message import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from tenfold.summarize.facts.text import plain
from tenfold.summarize.redact import redact
from tenfold.summarize.section import Count

FENCE = "untrusted-data"
_LARGEST, _SMALLEST = 8_000, 120


def transcript(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """The messages as text of at most `budget` tokens: parts are shortened alike until all fits, then the oldest go."""
    limit = _LARGEST
    blocks = [_block(at, message, limit) for at, message in items]
    while limit > _SMALLEST and sum(count(blocks)) > budget:
        limit //= 2
        blocks = [_block(at, message, limit) for at, message in items]
    sizes = count([block + "\n\n" for block in blocks]) if blocks else []
    first, total = len(blocks), 0
    room = budget - 30
    while first > 0 and total + sizes[first - 1] <= room:
        first -= 1
        total += sizes[first]
    kept = blocks[first:]
    if first:
        kept.insert(0, f"({first} earlier messages are left out here)")
    text = "\n\n".join(kept)
    while kept and count([text])[0] > budget:
        kept = kept[1:]
        text = "\n\n".join(kept)
    return text


def _block(at: int, message: Message, limit: int) -> str:
    lines = [f"[{at}] {_who(message)}" + (f" ({message.status})" if message.status != "ok" else "")]
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(
                    _fenced(text, limit, message.origin)
                    if message.origin in {"tool", "harness"}
                    else _shorten(text, limit)
                )
            case Thinking(text=text):
                lines.append("(thinking) " + _shorten(text, limit // 4))
            case ToolCall(name=name, arguments=arguments):
                lines.append(f"calls {name} with " + _shorten(arguments, limit // 2))
            case ToolResult():
                lines.append(_result(part, limit))
            case Image(media=media, width=width, height=height):
                lines.append(f"(image {media} {width}x{height})")
            case Document(name=name, text=text):
                lines.append(f"(document {name})\n" + _fenced(text, limit, "document"))
            case Opaque(kind=kind):
                lines.append(f"(a part of type {kind})")
    return redact("\n".join(line for line in lines if line))


def _who(message: Message) -> str:
    match message.origin:
        case "human":
            return "USER"
        case "model":
            return "ASSISTANT"
        case "tool":
            return "TOOL OUTPUT"
        case "tenfold":
            return "EARLIER SUMMARY"
        case _:
            return "CONTEXT (injected by the program, not by the user)"


def _result(part: ToolResult, limit: int) -> str:
    texts = [item.text for item in part.content if isinstance(item, Text | Document)]
    others = sum(1 for item in part.content if not isinstance(item, Text | Document))
    label = f"{part.name or 'result'}{' error' if part.error else ''}"
    body = _fenced("\n".join(texts), limit, label)
    return body + (f"\n({others} parts that are not text)" if others else "")


def _fenced(text: str, limit: int, label: str) -> str:
    """Text as data: between marks that the text itself cannot close."""
    body = _shorten(text, limit).replace(f"</{FENCE}", f"<\\/{FENCE}").replace(f"<{FENCE}", f"<\\{FENCE}")
    safe = "".join(c if c.isalnum() or c in " _-." else "_" for c in label)[:60]
    return f'<{FENCE} from="{safe}">\n{body}\n</{FENCE}>'


def _shorten(text: str, limit: int) -> str:
    """Head and tail of at most `limit` characters together, the gap stated in lines (or characters in one line)."""
    if len(text) <= limit:
        return plain(text)
    first, last = limit * 2 // 3, len(text) - limit // 3
    lines = text.count("\n", first, last)
    size = f"{lines} lines" if lines > 1 else f"{last - first} characters"
    return f"{plain(text[:first])}\n[... {size} left out ...]\n{plain(text[last:])}"
