"""Options of the commands that open an agent: its model, where that is served, its session and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelOption = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="PROVIDER:NAME, with the key in the provider's environment variable. Default: the session's, else by "
        "the first key found, else the scripted `demonstration`.",
    ),
]
UrlOption = Annotated[
    str, typer.Option(metavar="URL", help="Where --model is served; any OpenAI-compatible server will do.")
]
WindowOption = Annotated[int | None, typer.Option(min=1, help="The model's window in tokens, where it is not known.")]
PolicyOption = Annotated[
    str, typer.Option(help="The policy: of `tenfold policies`, or named in the settings. Default: the settings'.")
]
SessionOption = Annotated[
    str,
    typer.Option(metavar="SESSION", help="Goes on with this session: its id or its beginning; `last` is the newest."),
]
FolderOption = Annotated[Path, typer.Option(help="The folder to work in; file tools do not leave it.")]
