"""Builds every distribution into build/dist and checks it as a stranger would get it: `make release`.

Each wheel and source archive is built and checked for the package index. The wheels are installed into an empty
environment, and the README's first commands run there, outside of the checkout. build/dist also gets the release notes
out of CHANGELOG.md, a bill of materials (CycloneDX) and the licences of what the base installation pulls in. Nothing is
uploaded. `--write` also installs each extra, and writes what they weigh to docs/installing.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scripts.figures import describe_measurement

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "dist"
PAGE = ROOT / "docs" / "installing.md"
MOST_BYTES = 40_000_000
"""What the base installation may take on the disk. pip and setuptools are not Tenfold's, and are counted apart."""
INSTALLERS = ("pip", "setuptools")
EXTRAS = ("models", "chat", "serve", "mcp", "postgres", "jobs", "semantic", "eval")
"""Those for people; the others bring a framework or the tools of development."""
PROJECTS = (ROOT, ROOT / "yardstick", ROOT / "packages" / "langchain-tenfold")
TOOLS = ("build==1.6.1", "twine==7.0.0", "cyclonedx-bom==7.5.0")
SESSION = ROOT / "examples" / "sessions" / "pricing.claude-code.jsonl"
COMMANDS = (
    ("compact", str(SESSION), "--to", "10%"),
    ("show", "last"),
    ("diff", "last"),
    ("search", "ROUND_HALF_UP"),
    ("undo", "last"),
    ("--help",),
)
_PACKAGES = """
import importlib.metadata as m, json, re
def read(d):
    said = d.metadata.get("License-Expression") or d.metadata.get("License") or "; ".join(
        c.rpartition(" :: ")[2] for c in d.metadata.get_all("Classifier") or () if c.startswith("License"))
    size = sum(p.stat().st_size for f in d.files or () if (p := f.locate()).is_file())
    return d.name, d.version, " ".join(said.split())[:60] or "not said", size, d.requires or []
print(json.dumps(sorted(map(read, m.distributions()), key=lambda row: row[0].lower())))
"""


class InstalledPackage(NamedTuple):
    """A package in an environment. `size` is the bytes of its files, compiled ones included."""

    name: str
    version: str
    licence: str
    size: int
    requires: list[str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Builds and checks everything. Any failure ends it with the command that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="", help="the tag that is released, as v1.2.3: it must be of this version")
    parser.add_argument("--write", action="store_true", help="also measure the extras, and write docs/installing.md")
    given = parser.parse_args(arguments)
    version = find_version(given.tag)
    notes = build_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "RELEASE_NOTES.md").write_text(notes, "utf-8")
    with tempfile.TemporaryDirectory(prefix="tenfold-release-") as folder:
        tools, clean = (_make_environment(Path(folder) / name) for name in ("tools", "clean"))
        _install(tools, *TOOLS)
        for project in PROJECTS:
            _run(tools, "-m", "build", "--outdir", str(OUT), str(project))
        archives = sorted(str(path) for path in OUT.iterdir() if path.suffix in (".whl", ".gz"))
        _run(tools, "-m", "twine", "check", "--strict", *archives)
        for wheel in OUT.glob("*.whl"):
            _check_wheel(wheel)
        base = next(OUT.glob("tenfold-*.whl"))
        _install(clean, str(base))
        packages = _list_packages(clean)
        print(report_size(packages))
        environ = {"HOME": folder, "PATH": os.environ["PATH"], "TENFOLD_STORE": str(Path(folder) / "store.db")}
        for command in COMMANDS:
            _run(clean, "-m", "tenfold", *command, cwd=folder, env=environ, quiet=True)
        python = str(clean / "bin" / "python")
        bill = OUT / "sbom.cdx.json"
        _run(tools, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(bill), python)
        lines = [f"{each.name} {each.version}: {each.licence}" for each in packages if each.name not in INSTALLERS]
        (OUT / "licences.txt").write_text("\n".join(lines) + "\n", "utf-8")
        print("\n".join(lines))
        others = [str(each) for each in OUT.glob("*.whl") if each != base]
        _install(clean, f"{base}[eval]", *others)
        _run(clean, "-m", "tenfold", "eval", "--help", cwd=folder, env=environ, quiet=True)
        _run(clean, "-c", "import langchain_tenfold; langchain_tenfold.TenfoldMiddleware", cwd=folder, quiet=True)
        if given.write:
            extras = {name: _measure_extra(Path(folder) / name, base, name) for name in EXTRAS}
            _write_page(describe_weights(packages, extras))
    print(f"built and checked: {', '.join(sorted(path.name for path in OUT.iterdir()))}")


def find_version(tag: str = "") -> str:
    """Returns the version of the project. A `tag` must be of that version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = str(project["version"])
    if tag and tag != f"v{version}":
        sys.exit(f"the tag {tag} is not of this version: pyproject.toml says {version}, so tag v{version} or change it")
    return version


def build_notes(changelog: str, version: str) -> str:
    """Returns what the changelog says of a version as a page that stands alone, with links to the files at its tag."""
    entry = re.search(
        rf"^## {re.escape(version)}(?![^\s(])[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if entry is None or not entry[1].strip():
        said = "has no entry for" if entry is None else "says nothing of"
        sys.exit(
            f"CHANGELOG.md {said} {version}: head what is new with `## {version}` in place of `## Unreleased`, or set "
            "the version in pyproject.toml to one that has an entry"
        )
    files = f"https://github.com/tenfold-project/tenfold/blob/v{version}/"
    text = re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", lambda link: f"]({files}{link[1]})", entry[1].strip())
    return f"# Tenfold {version}\n\n{text}\n"


def report_size(packages: Iterable[InstalledPackage]) -> str:
    """Says what the base installation takes, largest first. Ends the program if that is more than `MOST_BYTES`."""
    own = sorted((each for each in packages if each.name not in INSTALLERS), key=lambda each: -each.size)
    total = sum(each.size for each in own)
    named = ", ".join(f"{each.name} {each.size / 1e6:.1f}" for each in own[:8])
    said = f"the base installation takes {total / 1e6:.1f} MB without pip and setuptools ({named})"
    if total > MOST_BYTES:
        sys.exit(
            f"{said}, {(total - MOST_BYTES) / 1e6:.1f} more than the {MOST_BYTES / 1e6:g} it may take: see which of "
            "these is new, and keep it out of [project] dependencies or below the release that grew"
        )
    return f"{said}, of {MOST_BYTES / 1e6:g} it may take"


def describe_weights(base: Sequence[InstalledPackage], extras: Mapping[str, Sequence[InstalledPackage]]) -> str:
    """Returns the tables of docs/installing.md: each package of the base installation, and what each extra adds."""
    own = sorted((each for each in base if each.name not in INSTALLERS), key=lambda each: -each.size)
    tools = [each for each in base if each.name in INSTALLERS]
    rows = [f"| {each.name} {each.version} | {each.size / 1e6:.1f} | {_find_reason(each, own)} |" for each in own]
    total = sum(each.size for each in own)
    known = {each.name for each in base}
    lines = [
        f"{describe_measurement()} Python {sys.version_info.major}.{sys.version_info.minor}, {sys.platform}.",
        "",
        "| package | MB | asked for by |",
        "|---|---:|---|",
        *rows,
        f"| together | {total / 1e6:.1f} | |",
        *(
            f"| {each.name} {each.version}, in every new environment | {each.size / 1e6:.1f} | Python |"
            for each in tools
        ),
        "",
        "| extra | adds MB | packages | the largest |",
        "|---|---:|---:|---|",
    ]
    for name, packages in extras.items():
        new = sorted((each for each in packages if each.name not in known), key=lambda each: -each.size)
        largest = ", ".join(f"{each.name} {each.size / 1e6:.1f}" for each in new[:3])
        lines.append(f"| `{name}` | {sum(each.size for each in new) / 1e6:.1f} | {len(new)} | {largest} |")
    return "\n".join(lines) + "\n"


def _find_reason(package: InstalledPackage, packages: Iterable[InstalledPackage]) -> str:
    """Returns the packages that ask for one."""
    asking = [
        each.name
        for each in packages
        if any(_normalize(line) == _normalize(package.name) for line in each.requires if "extra ==" not in line)
    ]
    return ", ".join(asking)


def _normalize(requirement: str) -> str:
    """Returns the name of a package in a requirement, as indexes compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _write_page(tables: str) -> None:
    page = PAGE.read_text("utf-8")
    PAGE.write_text(
        re.sub(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", lambda _: tables, page, count=1, flags=re.DOTALL), "utf-8"
    )


def _measure_extra(folder: Path, base: Path, extra: str) -> list[InstalledPackage]:
    environment = _make_environment(folder)
    _install(environment, "--find-links", str(OUT), f"{base}[{extra}]")
    return _list_packages(environment)


def _list_packages(environment: Path) -> list[InstalledPackage]:
    return [InstalledPackage(*row) for row in json.loads(_run(environment, "-c", _PACKAGES, quiet=True))]


def _install(environment: Path, *what: str) -> None:
    _run(environment, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


def _make_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder


def _run(
    environment: Path, *arguments: str, cwd: str | None = None, env: dict[str, str] | None = None, quiet: bool = False
) -> str:
    command = [str(environment / "bin" / "python"), *arguments]
    ran = subprocess.run(command, cwd=cwd, env=env, check=False, text=True, stdout=subprocess.PIPE if quiet else None)
    if ran.returncode:
        sys.exit(f"failed with {ran.returncode}: {' '.join(arguments)}")
    return ran.stdout or ""


def _check_wheel(wheel: Path) -> None:
    """Checks that a wheel holds its types and licence, and nothing that does not belong into it."""
    names = zipfile.ZipFile(wheel).namelist()
    wrong = [name for name in names if name.startswith(("tests/", "docs/", "examples/")) or name.endswith(".pyc")]
    if wrong:
        sys.exit(f"{wheel.name} holds what does not belong there: {wrong[:5]}")
    if not any(name.endswith("py.typed") for name in names):
        sys.exit(f"{wheel.name} has no py.typed")


if __name__ == "__main__":
    main()
