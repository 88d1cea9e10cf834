"""Reads shell commands: which files they create, change, delete or rename, and a name to compare runs by.

It splits words and knows some twenty programs. It never expands, runs, or guesses at variables.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Container
from itertools import dropwhile, pairwise, takewhile
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.text.memoize import memoize

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w++)\1([^\n]{0,500})\n.*?(?:\n[ \t]*\2(?=\s|$)|\Z)", re.DOTALL)
_HEREDOC_ARGUMENT = re.compile(r"\$\(cat <<-?\s*(['\"]?)(\w++)\1\n")
_HEREDOC_ARGUMENT_END = re.compile(r"\n[ \t]*(\w++)[ \t]*(?:\n[ \t]*)?\)")
_MAX_COMMAND_CHARS = 200_000
"""Most characters of a command that are read, including its here-documents."""
_COMMENT = re.compile(r"(?m)^[ \t]*#[^\n]*$|(?<=\s)#\s[^\n'\"]*$")
_TOKEN = re.compile(
    r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\d?>>|\d?>&\d|&>|\d?>|<|&&|\|\||\|&|[;|&\n()]|(?:\\.|[^\s'\"<>|;&()\\])+|\\\n"
    r"|[\"'\\]"
)
_SEPARATORS = {"&&", "||", ";", "\n", "&", "(", ")"}
_SELECTION_FLAGS = frozenset(["-k", "-p", "-run", "--run", "--package", "--filter", "--workspace"])
"""Flags that select a part of what a program would run on."""
_FILE_WORD = re.compile(r"/|\w\.\w{1,5}$|::")
_SILENT_PROGRAMS = frozenset(
    ["cd", "echo", "sleep", "pwd", "export", "set", "source", "true", "printf", "clear", "wait"]
)
_RELIABLE_NAMES = "mkdir touch cp mv rm sed perl tee cat ls git-add git-mv git-rm"
_RELIABLE_PROGRAMS = _SILENT_PROGRAMS | frozenset(_RELIABLE_NAMES.split())
"""Programs that rarely fail. In a failed chain, a command after one of these did run; after others it may not have."""
_READ_ONLY_NAMES = (
    "ls cat head tail less more grep rg ag ack egrep fgrep find fd wc sort uniq cut tr awk sed diff file stat"
    " which type test [ tree du df env jq nl xxd od date whoami id uname ps history search_file search_dir"
    " find_file open goto scroll_down scroll_up git-log git-diff git-show git-status git-blame git-grep"
    " sha256sum md5sum realpath readlink basename dirname printenv"
    " git-ls-files git-branch git-remote gh-pr-view gh-run-view gh-issue-view"
)
_READ_ONLY_PROGRAMS = frozenset(_READ_ONLY_NAMES.split())
_SEARCH_NAMES = "grep egrep fgrep rg ag ack git-grep find fd find_file search_file search_dir"
_SEARCH_PROGRAMS = frozenset(_SEARCH_NAMES.split())
_KEYWORD_NAMES = "do done then else elif fi if while until esac case { } ! time"
_KEYWORDS = frozenset(_KEYWORD_NAMES.split())
_ERROR_WORD = re.compile(r"err|fail|fatal|panic|traceback", re.IGNORECASE)
_TEST_RUN = re.compile(
    r"(?:\S{0,200}/)?(?:(?:npx|bunx|uv run|poetry run|pnpm(?: exec)?|yarn|bun|npm run|npm|cargo|go|make"
    r"|python3?(?: -m)?|dotnet|mvn|gradlew?|rake"
    r"|bundle exec) )*(?:\S{0,200}/)?(?:pytest|unittest|jest|vitest|mocha|tox|nox|rspec|phpunit|ctest|test)(?:[:\s]|$)"
)


FileVerb = Literal["read", "write", "modify", "delete", "rename", "revert"]


class FileEffect(Struct, frozen=True):
    """One thing a call does to one file. `target` is the new path of a rename; `is_certain` says that it surely ran."""

    verb: FileVerb
    path: str
    target: str = ""
    is_certain: bool = True


def inline_heredocs(command: str) -> str:
    """Replaces each here-document that only fills an argument by its text.

    Agents write texts of several lines this way, for example commit messages.
    """
    if "$(cat <<" not in command:
        return command
    command = command[:_MAX_COMMAND_CHARS]
    ends: dict[str, list[re.Match[str]]] = {}
    for end in _HEREDOC_ARGUMENT_END.finditer(command):
        ends.setdefault(end[1], []).append(end)
    out, position = "", 0
    for begin in _HEREDOC_ARGUMENT.finditer(command):
        candidates = ends.get(begin[2], [])
        number = bisect_left(candidates, begin.end(), key=lambda end: end.start())
        if begin.start() >= position and number < len(candidates):
            end = candidates[number]
            out += command[position : begin.start()] + command[begin.end() : end.start()].replace('"', "'")
            position = end.end()
    return out + command[position:]


def list_heredocs(command: str) -> list[tuple[str, str]]:
    """Returns the here-documents of a command, each with the line that opens it."""
    found: list[tuple[str, str]] = []
    for each in _HEREDOC.finditer(command[:_MAX_COMMAND_CHARS]) if "<<" in command else ():
        text = command[command.rfind("\n", 0, each.start()) + 1 : each.end()]
        header, _, body = text.partition("\n")
        found.append((header, body.rpartition("\n")[0]))
    return found


def split_pipelines(command: str) -> list[list[list[str]]]:
    """Splits a command into pipelines of words: `a && b | c` gives `[[[a]], [[b], [c]]]`. Drops here-documents."""
    return [pipe for _, pipe in split_joined_pipelines(command)]


def split_joined_pipelines(command: str) -> list[tuple[str, list[list[str]]]]:
    """Splits a command into pipelines, each with the operator before it: `&&`, `||`, or a separator such as `;`.

    The first pipeline has "".
    """
    command = command[:_MAX_COMMAND_CHARS]
    if "<<" in command:
        command = _HEREDOC.sub(r" \3\n", command)
    command = command[: _MAX_COMMAND_CHARS // 10]
    if "#" in command:
        command = _COMMENT.sub("", command)
    out: list[tuple[str, list[list[str]]]] = [("", [[]])]
    for piece in _TOKEN.findall(command):
        pipe = out[-1][1]
        if piece in _SEPARATORS:
            if pipe != [[]]:
                out.append((piece, [[]]))
        elif piece in {"|", "|&"}:
            pipe.append([])
        elif piece != "\\\n":
            pipe[-1].append(piece)
    return [(join, pipe) for join, pipe in ((join, [words for words in pipe if words]) for join, pipe in out) if pipe]


@memoize
def normalize_command(command: str) -> str:
    """Returns the command's name for comparing runs: no `cd`, no redirections, no pipe into a filter, single spaces."""
    parts: list[str] = []
    for pipe in split_pipelines(command):
        words = _strip_redirections(pipe[0])
        if words and words[0] not in _SILENT_PROGRAMS:
            parts.append(excerpt(" ".join(words), 160, Keep.HEAD))
    return excerpt(" && ".join(parts), 400, Keep.HEAD) or excerpt(" ".join(command.split()), 160, Keep.HEAD)


def get_program(part: str) -> str:
    """Returns the program of one normalized command with what it works on.

    For example `npm run check` or `python -m unittest tests.a`. That is its words up to the first flag, at most three
    (two for git), or the module after `python -m`. Then come at most two arguments from behind the flags: files, and
    what `--` or a selecting flag names (`pytest -k`, `cargo -p`).
    """
    words = part.removeprefix("$ ").split()
    if words[1:2] in (["-c"], ["-e"]):
        return " ".join(words[:2])
    if words[:1] == ["git"]:
        return " ".join(word for word in words[:2] if not word.startswith("-"))
    flags = 3 if words[1:2] == ["-m"] else 1
    front = list(takewhile(lambda word: not word.startswith("-"), words[flags : 4 if flags == 3 else 3]))
    rest = words[flags + len(front) :]
    picked = [
        word
        for before, word in pairwise(["", *rest])
        if not word.startswith("-") and (before in _SELECTION_FLAGS or before == "--" or _FILE_WORD.search(word))
    ]
    return " ".join([*words[:flags], *front, *picked[:2]])


def list_broader_programs(name: str) -> list[str]:
    """Returns a program's name and the names of wider runs of it: fewer words, or all the tests of a file."""
    words = name.split()
    min_words = 3 if words[1:2] == ["-m"] else 2 if words[:1] in (["npm"], ["npx"], ["git"], ["cargo"], ["go"]) else 1
    forms: list[str] = []
    for number in range(len(words), min(min_words, len(words)) - 1, -1):
        form = " ".join(words[:number])
        forms += [form, form.partition("::")[0]] if "::" in words[number - 1] else [form]
    return forms


def is_read_only(command: str) -> bool:
    """Tells whether every part of a normalized command only reads (ls, grep, git log). Its failure is no open error."""
    parts = command.removeprefix("$ ").split(" && ")
    return all(_get_program_name(part.split()) in _READ_ONLY_PROGRAMS for part in parts if part)


def is_search(command: str) -> bool:
    """Tells whether the last part of a normalized command looks for something, so that no output means "not found"."""
    return _get_program_name(command.removeprefix("$ ").split(" && ")[-1].split()) in _SEARCH_PROGRAMS


def is_test_run(command: str) -> bool:
    """Tells whether a normalized command runs tests, which always print how they ended."""
    return any(_TEST_RUN.match(part) for part in command.removeprefix("$ ").split(" && "))


def can_hide_failure(command: str, shown_lines: int) -> bool:
    """Tells whether a command ends well and shows no error even if the program that does its work fails.

    That is a program before `||` or a last `echo`, or before a pipe into a filter that may leave out the error:
    `head` that has cut, `grep` for something other than errors. `tail` shows the end, where errors are.
    """
    if "pipefail" in command or ("|" not in command and ";" not in command and "\n" not in command):
        return False
    pipes = split_joined_pipelines(command)
    for number, (_, pipe) in enumerate(pipes):
        commands = [_strip_keywords(_strip_redirections(words)) for words in pipe]
        program = _get_program_name(commands[0])
        if not program or program in _READ_ONLY_PROGRAMS or program in _RELIABLE_PROGRAMS:
            continue
        join, following = pipes[number + 1] if number + 1 < len(pipes) else ("", [[""]])
        if join == "||" or (join in {";", "\n"} and following[0][0] in {"echo", "true", "printf"}):
            return True
        if any(_can_omit_errors(words, shown_lines) for words in commands[1:]):
            return True
    return False


def _can_omit_errors(words: list[str], shown_lines: int) -> bool:
    """Tells whether a filter may have left out the error that a program printed, given how many lines it showed."""
    match _get_program_name(words):
        case "head":
            count = next((int(found[0]) for word in words[1:] if (found := re.search(r"\d+", word))), 10)
            return shown_lines >= count - 1
        case "grep" | "egrep" | "rg":
            return not any(_ERROR_WORD.search(word) for word in words[1:])
        case "awk" | "sed" | "cut" | "wc" | "jq":
            return True
        case _:
            return False


def _strip_keywords(words: list[str]) -> list[str]:
    """Returns a command without the words by which a loop or condition begins or ends."""
    kept = list(dropwhile(lambda word: word in _KEYWORDS, words))
    return [] if words[:1] == ["for"] else kept


def _get_program_name(words: list[str]) -> str:
    if not words:
        return ""
    base = posixpath.basename(words[0])
    if base in {"git", "gh"}:
        rest = [word for word in words[1:] if not word.startswith("-")]
        return "-".join([base, *rest[: 2 if base == "gh" else 1]])
    return base


def _strip_redirections(words: list[str]) -> list[str]:
    """Returns the words without redirections, leading assignments, and sudo or time."""
    out: list[str] = []
    skip = False
    for before, word in pairwise(["", *words]):
        if skip:
            skip = False
        elif not out and before.endswith("=") and word[0] in "'\"":  # the value of an assignment
            continue
        elif word in {">", ">>", "<", "&>", "1>", "2>", "1>>", "2>>"}:
            skip = True
        elif re.fullmatch(r"\d?>&\d", word) or (
            not out and (word in {"sudo", "time", "nohup", "command"} or re.match(r"^\w+=", word))
        ):
            continue
        else:
            out.append(word)
    return out


@memoize
def find_file_effects(command: str, open_file: str = "") -> tuple[FileEffect, ...]:
    """Returns what a shell command does to files, in order. Ignores words with variables, globs or substitutions."""
    directory = ""
    out: list[FileEffect] = []
    pipes = split_joined_pipelines(command)
    is_doubtful = False
    new_folders: set[str] = set()
    for number, (join, pipe) in enumerate(pipes):
        if join == "||":  # it runs only if the command before it failed
            continue
        is_doubtful = is_doubtful and join == "&&"
        is_certain = number < len(pipes) - 1 and not is_doubtful
        is_doubtful = is_doubtful or not all(
            _get_program_name(_strip_redirections(words)) in _RELIABLE_PROGRAMS for words in pipe
        )
        for words in pipe:
            bare_words = _strip_redirections(words)
            if bare_words[:1] == ["cd"] and len(bare_words) > 1:
                directory = _join_path(directory, _unquote(bare_words[1]))
                continue
            if bare_words[:1] == ["mkdir"]:
                new_folders |= {path for word in bare_words[1:] if (path := _resolve_path(word, directory))}
            out.extend(_find_program_effects(bare_words, directory, is_certain=is_certain))
            out.extend(_find_redirect_effects(words, directory, is_certain=is_certain))
    if open_file and command.lstrip().startswith(("insert ", "append ")):
        out.append(FileEffect(verb="modify", path=open_file))
    return tuple(_without_detours(out, new_folders))


def _without_detours(effects: list[FileEffect], new_folders: set[str]) -> list[FileEffect]:
    """Leaves out what one command makes and removes again, and the file it writes before moving it over another."""
    gone = new_folders.intersection(effect.path for effect in effects if effect.verb == "delete")
    written = {effect.path for effect in effects if effect.verb == "write"}
    moved = {effect.path for effect in effects if effect.verb == "rename"} & written
    if not gone and not moved:
        return effects
    return [
        replace(effect, verb="write", path=effect.target, target="") if effect.path in moved else effect
        for effect in effects
        if not _is_inside(effect.path, gone) and not (effect.verb == "write" and effect.path in moved)
    ]


def _is_inside(path: str, folders: Container[str]) -> bool:
    """Tells whether a path is one of some folders or lies in one of them."""
    parts = path.split("/")
    return any("/".join(parts[:number]) in folders for number in range(1, len(parts) + 1))


def _find_redirect_effects(words: list[str], directory: str, *, is_certain: bool) -> list[FileEffect]:
    out: list[FileEffect] = []
    for mark, target in pairwise(words):
        if mark in {">", ">>", "1>", "&>", "1>>"} and (path := _resolve_path(target, directory)):
            out.append(
                FileEffect(verb="write" if mark in {">", "1>", "&>"} else "modify", path=path, is_certain=is_certain)
            )
    return out


def _find_program_effects(words: list[str], directory: str, *, is_certain: bool) -> list[FileEffect]:
    if not words:
        return []
    name = _get_program_name(words)
    start = 2 if name.startswith("git-") else 1
    flags = {word for word in words[start:] if word.startswith("-") and word != "-"}
    paths = [path for word in words[start:] if not word.startswith("-") and (path := _resolve_path(word, directory))]
    match name:
        case "rm" | "git-rm" | "unlink":
            return [
                FileEffect(verb="delete", path=path, is_certain=is_certain) for path in paths if "--cached" not in flags
            ]
        case "mv" | "git-mv":
            return _find_move_effects(paths, words[-1], is_certain=is_certain)
        case "cp" if len(paths) >= 2:
            destination = paths[-1]
            is_folder = len(paths) > 2 or words[-1].endswith("/") or "." not in posixpath.basename(destination)
            return [
                FileEffect(
                    verb="write",
                    path=_join_path(destination, posixpath.basename(path)) if is_folder else destination,
                    is_certain=is_certain,
                )
                for path in paths[:-1]
            ]
        case "tee":
            return [
                FileEffect(verb="modify" if "-a" in flags else "write", path=path, is_certain=is_certain)
                for path in paths
            ]
        case "touch" | "create":
            return [FileEffect(verb="write", path=path, is_certain=is_certain) for path in paths]
        case "sed" | "perl" | "gsed":
            return _find_in_place_effects(words, directory, is_certain=is_certain)
        case "cat" | "head" | "tail" | "less" | "nl" | "open" | "view":
            return [
                FileEffect(verb="read", path=path, is_certain=is_certain)
                for path in paths
                if "." in posixpath.basename(path) and not path.isdigit()
            ]
        case "git-restore":
            return [
                FileEffect(verb="revert", path=path, is_certain=is_certain)
                for path in paths
                if "." in posixpath.basename(path)
            ]
        case "git-checkout" if "--" in words or "." in words[start:]:
            after = words[words.index("--") + 1 :] if "--" in words else ["."]
            return [
                FileEffect(verb="revert", path=path, is_certain=is_certain)
                for word in after
                if (path := _resolve_path(word, directory))
            ]
        case "git-reset" if "--hard" in flags:
            return [FileEffect(verb="revert", path=".", is_certain=is_certain)]
        case _:
            return []


def _find_move_effects(paths: list[str], last: str, *, is_certain: bool) -> list[FileEffect]:
    if len(paths) < 2:
        return []
    destination = paths[-1]
    is_folder = (
        len(paths) > 2
        or last.endswith("/")
        or ("." not in posixpath.basename(destination) and "." in posixpath.basename(paths[0]))
    )
    return [
        FileEffect(
            verb="rename",
            path=path,
            target=_join_path(destination, posixpath.basename(path)) if is_folder else destination,
            is_certain=is_certain,
        )
        for path in paths[:-1]
    ]


def _find_in_place_effects(words: list[str], directory: str, *, is_certain: bool) -> list[FileEffect]:
    """Returns the files that `sed -i` or `perl -pi` edits, or that `sed -n` reads."""
    if not any(re.match(r"^-(?:i|\w*i\b|pi)", word) or word == "--in-place" for word in words[1:]):
        reads = [
            path
            for word in words[2:]
            if "." in word and (path := _resolve_path(word, directory)) and "'" not in word and '"' not in word
        ]
        return [
            FileEffect(verb="read", path=path, is_certain=is_certain)
            for path in reads
            if words[0] in {"sed", "gsed"} and "-n" in words
        ]
    files = [
        word for word in words[2:] if not word.startswith("-") and word[0] not in "'\"" and ("." in word or "/" in word)
    ]
    files = [word for word in files if not re.match(r"^s(.).*\1.*\1", word)]
    return [
        FileEffect(verb="modify", path=path, is_certain=is_certain)
        for word in files
        if (path := _resolve_path(word, directory))
    ]


def _unquote(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _resolve_path(word: str, directory: str) -> str:
    """Returns the word as a path, joined to the directory changed to; "" if it is no path."""
    bare = _unquote(word)
    if (
        not bare
        or bare.startswith(("/dev/", "-", "&", "$(", "s/"))
        or any(c in bare for c in "$*?`{}<>|=\n,")
        or len(bare) > 300
    ):
        return ""
    if " " in bare and not word.startswith(("'", '"')):
        return ""
    return _join_path(directory, bare)


def _join_path(directory: str, path: str) -> str:
    if not directory or path.startswith(("/", "~")):
        return posixpath.normpath(path) if path not in {"", "/"} else path
    return posixpath.normpath(posixpath.join(directory, path))


def strip_directory_change(command: str) -> str:
    """Returns a command without the `cd` that many agents put before each."""
    return _DIRECTORY_CHANGE.sub("", command)


_DIRECTORY_CHANGE = re.compile(r"^(?:cd [^\s;&|]+ ?(?:&&|;) ?)+(?=\S)")


def list_reported_renames(command: str, output: str) -> list[FileEffect]:
    """Lists the renames that git says it made with a commit that somebody wrote before, such as one that it reverts."""
    if not _GIT_REPLAY.search(command):
        return []
    return [
        FileEffect(verb="rename", path=f"{head}{old}{tail}", target=f"{head}{new}{tail}")
        for head, old, new, tail in _RENAME_LINE.findall(output)
    ]


_GIT_REPLAY = re.compile(r"\bgit (?:-\S+ \S+ )?(?:revert|cherry-pick|merge|pull|am)\b")
_RENAME_LINE = re.compile(
    r"^ rename (?:([^{\n]*+)\{)?((?:(?! => )[^{}\n])*+) => ([^{}\n]*?)(?:\}([^\n]*?))? \(\d+%\)$", re.MULTILINE
)
"""As in ` rename src/{old.py => new.py} (98%)`, or without braces."""
