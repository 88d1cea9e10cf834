"""Renders the templates of the pages. Every value is text until a template says otherwise."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePath
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tenfold import __version__
from tenfold.apps.inspector import session_pages as pages
from tenfold.session.bill_text import format_dollars
from tenfold.store.base import SessionInfo
from tenfold.store.ids import convert_time, get_current_time

LIVE_SECONDS = 5 * 60
"""A session is live if it has had a request in the last minutes."""
_MINUS = re.compile(r"(?<![\w.,])-(?=[$\d])")


def render(template: str, **values: object) -> str:
    """Renders a template."""
    return _load_environment().get_template(template).render(**values)


def respond(template: str, code: int = 200, **values: object) -> Response:
    """Renders a template as the answer of a request."""
    return HTMLResponse(render(template, **values), code)


def build_address(path: str, **fields: object) -> str:
    """Builds an address within the pages, with fields that are empty left out."""
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def go_to(address: str) -> Response:
    """Answers a form by another page."""
    return RedirectResponse(address, 303)


def tell_script(answer: Response) -> Response:
    """Returns an answer for a form that a script has sent: it loads another page itself when it is told so.

    A browser would follow the redirection without the script's knowledge, into the place for a part of a page.
    """
    address = answer.headers.get("location")
    return answer if address is None else Response(status_code=204, headers={"HX-Redirect": address})


@cache
def _load_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tenfold.apps.inspector"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["share"] = lambda value: f"{value:.1%}"
    environment.filters["clean"] = pages.escape_unseen
    environment.filters["line"] = pages.flatten
    environment.filters["name"] = name_session
    environment.filters["age"] = describe_age
    environment.filters["clock"] = format_clock
    environment.tests["live"] = is_live
    environment.filters["dollars"] = lambda value: show_minus(format_dollars(value))
    environment.filters["quotations"] = pages.mark_quotations
    environment.filters["minus"] = show_minus
    environment.globals["address"] = build_address
    environment.globals["most_rule_characters"] = pages.MOST_RULE_CHARACTERS
    environment.globals["layout"] = "session.html"
    environment.globals["is_file"] = False
    environment.globals["version"] = __version__
    return environment


def show_minus(text: str) -> str:
    """Writes the sign of negative numbers as one that is as wide as a digit, and that is read out as minus."""
    return _MINUS.sub("\N{MINUS SIGN}", text)


def format_clock(time: int) -> str:
    """Formats a time as the clocks of this machine show it."""
    return f"{convert_time(time).astimezone():%H:%M:%S}"


def is_live(time: int | None) -> bool:
    """Tells whether something happened in the last minutes."""
    return time is not None and get_current_time() - time < LIVE_SECONDS * 1_000_000


def name_session(info: SessionInfo) -> str:
    """Returns what a person knows a session by: its title, else its file, else its id."""
    return info.title or PurePath(info.file).name or info.id


def describe_age(time: int | None) -> str:
    """Says how long ago a time was, in microseconds UTC. "" if nobody knows it."""
    if time is None:
        return ""
    seconds = max(0, (get_current_time() - time) // 1_000_000)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:,} {name} ago"
    return "just now"
