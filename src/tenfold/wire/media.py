"""Images and documents: data URLs, and placeholder texts for what a wire cannot carry."""

from __future__ import annotations

from tenfold.record.message import Document, Image


def image_of(url: str) -> Image:
    """Makes an image from a plain or a `data:` URL."""
    media, data = _data_url(url)
    return Image(media=media, data=data) if data else Image(url=url)


def document_of(url: str, name: str = "") -> Document:
    """Makes a document from a plain or a `data:` URL."""
    media, data = _data_url(url)
    return Document(name=name, media=media, data=data) if data else Document(name=name, url=url)


def url_of(part: Image | Document) -> str:
    """Returns the URL of a part: a `data:` URL if the part holds its data."""
    return f"data:{part.media or 'application/octet-stream'};base64,{part.data}" if part.data else part.url


def stand_in(part: Image | Document) -> str:
    """Renders the text that says what is missing."""
    if isinstance(part, Image):
        return f"[image{f' {part.media}' if part.media else ''} not shown]"
    what = part.name or part.url or part.media
    return f"[document{f' {what}' if what else ''} not shown]"


def inline(part: Document) -> str:
    """Renders a document as text, with its name above it."""
    return f"[document {part.name}]\n{part.text}" if part.name else part.text


def _data_url(url: str) -> tuple[str, str]:
    if not url.startswith("data:"):
        return "", ""
    head, _, data = url[5:].partition(",")
    media, _, encoding = head.partition(";")
    return (media, data) if encoding.endswith("base64") else ("", "")
