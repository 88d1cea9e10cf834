"""A reading test's answers beside the view that gave them."""

from __future__ import annotations

from starlette.responses import Response

from tenfold.apps.inspector.readings import Readings, find_passage, mark_answer
from tenfold.apps.inspector.rendering import respond
from tenfold.apps.inspector.session_pages import escape_unseen
from tenfold.apps.inspector.visits import Page, Visit
from tenfold.errors import NotFoundError


def show_readings(visit: Visit) -> Response:
    """What was read: each view with the number of its answers and their mean grade."""
    return respond("readings.html", visit=visit, places=_get_readings(visit).list_places())


def show_reading(visit: Visit) -> Response:
    """The questions about one view, with answers, gold and grades, and its text with the passage of one answer."""
    readings = _get_readings(visit)
    names = ("session", "method", "size", "rounds", "recall")
    place = readings.find_place(*(visit.get(name) for name in names))
    questions, made = readings.list_questions(place), readings.make_view(place)
    number = visit.get_number("answer")
    chosen = next((each for each in questions if each[0].id == visit.get("question")), None)
    answer = chosen[1][number].answer if chosen is not None and 0 <= number < len(chosen[1]) else ""
    span = find_passage(made.text, answer) if answer else None
    start, end = span or (len(made.text), len(made.text))
    pieces = [escape_unseen(part) for part in (made.text[:start], made.text[start:end], made.text[end:])]
    fields = {name: visit.get(name) for name in names}
    return respond(
        "reading.html", visit=visit, place=place, questions=questions, made=made, chosen=chosen, fields=fields,
        before=pieces[0], passage=mark_answer(pieces[1], answer), after=pieces[2], is_found=span is not None,
    )  # fmt: skip


def _get_readings(visit: Visit) -> Readings:
    """Returns the readings, which belong to the person who started the pages. Raises `NotFoundError` without any."""
    if visit.readings is None:
        raise NotFoundError("no readings were named: start `tenfold inspect --readings FOLDER` on this machine")
    return visit.readings


READING_PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/readings", "GET", show_readings),
    ("/readings/view", "GET", show_reading),
)
"""The address, the method and the function of every page about readings."""
