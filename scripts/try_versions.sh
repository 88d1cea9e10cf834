#!/bin/sh
# Runs `make test` with each version of Python that pyproject.toml names, in an environment of its own below .versions.
# An interpreter is looked for as python3.N on the path, and among those that pyenv has installed.
set -u

MAKE=${MAKE:-make}
versions=$(sed -n 's/.*"Programming Language :: Python :: \(3\.[0-9][0-9]*\)".*/\1/p' pyproject.toml)

# A command on the path may be one of pyenv's, which runs only where that version is chosen.
find_python() {
    for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1"; do
        "$found" -c '' >/dev/null 2>&1 && command -v "$found" && return 0
    done
    return 1
}

failed=0
report=
for version in $versions; do
    if ! python=$(find_python "$version"); then
        result='not found, so not tried'
    elif "$MAKE" test PYTHON="$python" VENV=".versions/$version"; then
        result="passed, with $python"
    else
        result="FAILED, with $python"
        failed=1
    fi
    report="$report
Python $version: $result"
done
echo "$report"
exit "$failed"
