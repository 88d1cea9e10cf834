"""Draws what was typed and printed in a terminal as an animated SVG that needs no script and no font of its own.

The delays are composed and not measured, so the same lines give the same bytes. It plays three times and stays at its
last frame, which is the whole of it. Readers who prefer less motion get that frame at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from io import StringIO
from itertools import groupby

import pyte
from msgspec import Struct
from rich.color import parse_rgb_hex
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

MOST_LINES = 400
PROMPT = "$ "
_PROMPT_STYLE = Style(color="green", bold=True)
_COMMAND_STYLE = Style(color="bright_white", bold=True)
_COMMENT_STYLE = Style(color="bright_black", italic=True)
THEME = TerminalTheme(
    parse_rgb_hex("161b22"),
    parse_rgb_hex("c9d1d9"),
    [parse_rgb_hex(six) for six in ["484f58", "ff7b72", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "c9d1d9"]],
    [parse_rgb_hex(six) for six in ["8b949e", "ffa198", "7ee787", "f2cc60", "a5d6ff", "e2c5ff", "b3f0ff", "ffffff"]],
)
"""Dark, with a frame around it: it is read alike on a light page and on a dark one."""
CHAR_WIDTH, LINE_HEIGHT = 12.2, 24.4
"""In which the console that draws it counts."""
SECONDS_A_KEY, SECONDS_A_LINE = 0.04, 0.04
SECONDS_BEFORE_OUTPUT, SECONDS_AFTER_OUTPUT, READING_SECONDS_A_LINE = 0.5, 0.8, 0.18
LAST_SECONDS, TIMES = 6, 3
_LINE = re.compile(r'<text class="(\S+)"( [^>]*?) clip-path="url\(#[\w-]+?-line-(\d+)\)">')
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}" width="{{width}}" height="{{height}}" \
role="img" aria-label="{label}">
<style>
text{{{{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:{{char_height}}px}}}}
.{{unique_id}}-title{{{{font-size:16px}}}}
.key{{{{opacity:0}}}}
{{styles}}
@media (prefers-reduced-motion:no-preference){{{{
{rules}
}}}}
</style>
<defs><clipPath id="screen"><rect width="100%" height="100%"/></clipPath></defs>
{{chrome}}
<g transform="translate({{terminal_x}},{{terminal_y}})" clip-path="url(#screen)">
{{backgrounds}}
{{matrix}}
{covers}
</g>
</svg>
"""


class Step(Struct, frozen=True):
    """A command, and what it printed, line by line. A command that begins with `#` is a comment."""

    command: str
    printed: Sequence[Text]


def read_screen(wrote: bytes, columns: int) -> list[Text]:
    """Reads the bytes that a program wrote as a terminal does. Returns the lines that are left at its end."""
    screen = pyte.Screen(columns, MOST_LINES)
    pyte.ByteStream(screen).feed(wrote)
    lines = [_read_line(screen, row) for row in range(screen.cursor.y + 1)]
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def _read_line(screen: pyte.Screen, row: int) -> Text:
    line = Text()
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    for style, run in groupby(cells, _build_style):
        line.append("".join(cell.data for cell in run), style)
    line.rstrip()
    return line


def _build_style(cell: pyte.screens.Char) -> Style:
    """A cell's style. pyte calls yellow brown, and names other colours by six digits."""
    return Style(
        color=_name_colour(cell.fg),
        bgcolor=_name_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _name_colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return name.replace("brown", "yellow").replace("bright", "bright_")


def write_text(steps: Sequence[Step]) -> str:
    """Writes what was typed and printed as plain text."""
    lines = [line for step in steps for line in (PROMPT + step.command, *(text.plain for text in step.printed))]
    return "\n".join(lines) + "\n"


def draw_picture(steps: Sequence[Step], title: str, columns: int) -> str:
    """Draws the steps, one after the other on one screen that is as high as all of them."""
    console = Console(
        record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    moments: list[float] = []
    keys = []
    now = 0.0
    for step in steps:
        style = _COMMENT_STYLE if step.command.startswith("#") else _COMMAND_STYLE
        command = Text.assemble((PROMPT, _PROMPT_STYLE), (step.command, style))
        if len(command) >= columns:
            raise ValueError(f"the command has {len(command)} columns of {columns} with its prompt: {step.command}")
        typed = now + len(step.command) * SECONDS_A_KEY
        keys.append((len(moments), now, typed, len(step.command)))
        moments.append(now)
        now = typed + SECONDS_BEFORE_OUTPUT
        for line in (command, *step.printed):
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
        for _ in step.printed:
            moments.append(now)
            now += SECONDS_A_LINE
        now += SECONDS_AFTER_OUTPUT + READING_SECONDS_A_LINE * len(step.printed)
    total = now + LAST_SECONDS
    rules = [_animate_line(row, moment, total) for row, moment in enumerate(moments)]
    rules += [_animate_keys(*key, total) for key in keys]
    picture = console.export_svg(
        title=title,
        theme=THEME,
        unique_id="t",
        code_format=_FORMAT.format(
            label=escape(title), rules="\n".join(rules), covers="\n".join(_draw_cover(*key) for key in keys)
        ),
    )
    return _LINE.sub(r'<text class="\1 l\3"\2>', picture)


def _animate_line(row: int, moment: float, total: float) -> str:
    share = _format_share(moment, total)
    return (
        f"@keyframes l{row}{{{{0%{{{{opacity:0}}}}{share},to{{{{opacity:1}}}}}}}}"
        f".l{row}{{{{animation:l{row} {total:.2f}s step-end {TIMES}}}}}"
    )


def _animate_keys(row: int, start: float, end: float, keys: int, total: float) -> str:
    """Uncovers a command key by key, with the cursor in front, until what it prints appears."""
    first, last = _format_share(start, total), _format_share(end, total)
    over = _format_share(end + SECONDS_BEFORE_OUTPUT, total)
    return (
        f"@keyframes k{row}{{{{0%{{{{opacity:0;animation-timing-function:step-end}}}}"
        f"{first}{{{{opacity:1;transform:none;animation-timing-function:steps({keys})}}}}"
        f"{last}{{{{opacity:1;transform:translateX({keys * CHAR_WIDTH:g}px);animation-timing-function:step-end}}}}"
        f"{over},to{{{{opacity:0}}}}}}}}"
        f".k{row}{{{{animation:k{row} {total:.2f}s {TIMES}}}}}"
    )


def _draw_cover(row: int, _start: float, _end: float, keys: int) -> str:
    """Draws the cursor, and what hides the keys that are not typed yet."""
    x, y = len(PROMPT) * CHAR_WIDTH, row * LINE_HEIGHT + 1.5
    place = f'y="{y:g}" height="{LINE_HEIGHT:g}"'
    hidden = f'<rect x="{x:g}" {place} width="{keys * CHAR_WIDTH + 1:g}" fill="{THEME.background_color.hex}"/>'
    cursor = f'<rect x="{x:g}" {place} width="{CHAR_WIDTH:g}" fill="{THEME.foreground_color.hex}"/>'
    return f'<g class="key k{row}">{hidden}{cursor}</g>'


def _format_share(moment: float, total: float) -> str:
    return f"{moment / total:.2%}"
