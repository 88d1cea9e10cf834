"""Images, documents and recordings: data URLs, native types, and placeholder texts for what a wire cannot carry."""

from __future__ import annotations

from typing import Literal

from tenfold.core.record.message import Document, Image

MediaKind = Literal["image", "document", "audio", "video"]


def to_image(url: str, detail: str = "") -> Image:
    """Makes an image from a plain or a `data:` URL."""
    media, data = _parse_data_url(url)
    return Image(media_type=media, data=data, detail=detail) if data else Image(url=url, detail=detail)


def to_document(url: str, name: str = "") -> Document:
    """Makes a document from a plain or a `data:` URL."""
    media, data = _parse_data_url(url)
    return Document(name=name, media_type=media, data=data) if data else Document(name=name, url=url)


def to_url(part: Image | Document) -> str:
    """Returns the URL of a part: a `data:` URL if the part holds its data."""
    return f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}" if part.data else part.url


def render_placeholder(part: Image | Document) -> str:
    """Renders the text that says what is missing."""
    if isinstance(part, Image):
        return f"[image{f' {part.media_type}' if part.media_type else ''} not shown]"
    what = part.name or part.url or part.media_type
    return f"[document{f' {what}' if what else ''} not shown]"


def inline_document(part: Document) -> str:
    """Renders a document as text, with its name above it."""
    return f"[document {part.name}]\n{part.text}" if part.name else part.text


def _parse_data_url(url: str) -> tuple[str, str]:
    if not url.startswith("data:"):
        return "", ""
    head, _, data = url[5:].partition(",")
    media, _, encoding = head.partition(";")
    return (media, data) if encoding.endswith("base64") else ("", "")
