"""Options of the commands that open an agent: its model, where that is served, its session and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelOption = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="The agent's model, as PROVIDER:NAME. Its key is read from the provider's environment variable. Default: "
        "the session's model, else one of the first provider whose key is set, else the scripted `demonstration`.",
    ),
]
UrlOption = Annotated[
    str, typer.Option(metavar="URL", help="The address of the OpenAI-compatible server that runs --model.")
]
WindowOption = Annotated[
    int | None,
    typer.Option(min=1, help="The model's context window in tokens, needed only if Tenfold does not know it."),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        help="The policy to use: one that `tenfold policies` lists, or one of your settings. Default: that of your "
        "settings."
    ),
]
SessionOption = Annotated[
    str,
    typer.Option(
        metavar="SESSION", help="Resume this session where you left off: its id, the beginning of it, or `last`."
    ),
]
FolderOption = Annotated[Path, typer.Option(help="The folder to work in. The file tools cannot leave it.")]
