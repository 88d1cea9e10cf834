"""Builds every distribution into build/dist and checks it as a stranger would get it: `make release`.

Each wheel and source archive is built and checked for the package index. The wheels are installed into an empty
environment, and the README's first commands run there, outside of the checkout. build/dist also gets a bill of
materials (CycloneDX) and the licences of what the base installation pulls in. Nothing is uploaded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "dist"
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
_LICENCES = """
import importlib.metadata as m, json
print(json.dumps(sorted([d.name, d.version, d.metadata.get("License-Expression") or d.metadata.get("License") or
    "; ".join(c.rpartition(" :: ")[2] for c in d.metadata.get_all("Classifier") or () if c.startswith("License"))]
    for d in m.distributions() if d.name not in ("pip", "setuptools"))))
"""


def main() -> None:
    """Builds and checks everything. Any failure ends it with the command that failed."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="tenfold-release-") as folder:
        tools, clean = (_make_environment(Path(folder) / name) for name in ("tools", "clean"))
        _run(tools, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
        for project in PROJECTS:
            _run(tools, "-m", "build", "--outdir", str(OUT), str(project))
        archives = sorted(map(str, OUT.iterdir()))
        _run(tools, "-m", "twine", "check", "--strict", *archives)
        for wheel in OUT.glob("*.whl"):
            _check_wheel(wheel)
        base = next(OUT.glob("tenfold-*.whl"))
        _run(clean, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(base))
        _report_size(clean)
        environ = {"HOME": folder, "PATH": os.environ["PATH"], "TENFOLD_STORE": str(Path(folder) / "store.db")}
        for command in COMMANDS:
            _run(clean, "-m", "tenfold", *command, cwd=folder, env=environ, quiet=True)
        python = str(clean / "bin" / "python")
        bill = OUT / "sbom.cdx.json"
        _run(tools, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(bill), python)
        rows = json.loads(_run(clean, "-c", _LICENCES, quiet=True))
        lines = [f"{name} {version}: {' '.join(licence.split())[:60] or 'not said'}" for name, version, licence in rows]
        (OUT / "licences.txt").write_text("\n".join(lines) + "\n", "utf-8")
        print("\n".join(lines))
        others = [str(each) for each in OUT.glob("*.whl") if each != base]
        _run(clean, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{base}[eval]", *others)
        _run(clean, "-m", "tenfold", "eval", "--help", cwd=folder, env=environ, quiet=True)
        _run(clean, "-c", "import langchain_tenfold; langchain_tenfold.TenfoldMiddleware", cwd=folder, quiet=True)
    print(f"built and checked: {', '.join(sorted(path.name for path in OUT.iterdir()))}")


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


def _report_size(environment: Path) -> None:
    """Prints what a plain installation takes on the disk, the largest packages first."""
    site = next((environment / "lib").glob("python*")) / "site-packages"
    sizes = {each.name: _measure(each) for each in site.iterdir() if not each.name.endswith(".dist-info")}
    own = {name: size for name, size in sizes.items() if name not in ("pip", "setuptools", "pkg_resources")}
    named = ", ".join(f"{name} {own[name] / 1e6:.1f}" for name in sorted(own, key=own.__getitem__, reverse=True)[:8])
    print(f"installed: {sum(own.values()) / 1e6:.0f} MB without pip and setuptools ({named})")


def _measure(path: Path) -> int:
    return sum(each.stat().st_size for each in (path.rglob("*") if path.is_dir() else [path]) if each.is_file())


if __name__ == "__main__":
    main()
