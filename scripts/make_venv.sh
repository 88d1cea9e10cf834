#!/bin/sh
# Makes $VENV (default .venv) with the development tools inside, using $PYTHON (default python3).
# Works also where Debian's python3 has no ensurepip: the environment is then made without pip, and a pip that is
# already on the machine puts one into it. Which index pip uses is the machine's own configuration.
set -eu

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

stop() {
    echo "tenfold: $1" >&2
    shift
    for line in "$@"; do echo "         $line" >&2; done
    exit 1
}

version() { "$PYTHON" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

found=$(version) || stop "'$PYTHON' is not a Python that runs." \
    "Install Python 3.11 or later, or name one: make PYTHON=/path/to/python3.12"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || stop \
    "needs Python 3.11 or later, but '$PYTHON' is $found." \
    "Name a newer one: make PYTHON=/path/to/python3.12"

in_venv() { "$VENV/bin/python" "$@"; }
has_pip() { in_venv -m pip --version >/dev/null 2>&1; }

# An environment is of one interpreter: another PYTHON= means another environment.
if [ -x "$VENV/bin/python" ]; then
    have=$(in_venv -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo broken)
    case "$found" in
        "$have".*) ;;
        *) echo "tenfold: $VENV is of Python $have, making it anew with $found"; rm -rf "$VENV" ;;
    esac
fi

# Each way is tried in turn, and the first that leaves a working pip is taken.
pip_from_host() {
    "$PYTHON" -m pip --python "$VENV/bin/python" install --quiet pip >/dev/null 2>&1 && has_pip
}
pip_as_target() {
    site=$(in_venv -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$PYTHON" -m pip install --quiet --target "$site" pip >/dev/null 2>&1 && has_pip
}
pip_on_path() {
    for pip in pip3 pip; do
        command -v "$pip" >/dev/null 2>&1 || continue
        "$pip" --python "$VENV/bin/python" install --quiet pip >/dev/null 2>&1 && has_pip && return 0
    done
    return 1
}
pip_from_wheel() {
    for wheel in /usr/share/python-wheels/pip-*.whl; do
        [ -f "$wheel" ] || continue
        PYTHONPATH="$wheel" in_venv -m pip install --quiet pip >/dev/null 2>&1 && has_pip && return 0
    done
    return 1
}

if [ ! -x "$VENV/bin/python" ] || ! has_pip; then
    echo "tenfold: making $VENV with $PYTHON ($found)"
    rm -rf "$VENV"
    if "$PYTHON" -c 'import venv, ensurepip' >/dev/null 2>&1 && "$PYTHON" -m venv "$VENV" >/dev/null 2>&1 && has_pip
    then
        :
    else
        rm -rf "$VENV"
        "$PYTHON" -m venv --without-pip "$VENV" || stop "'$PYTHON' cannot make a virtual environment." \
            "On Debian and Ubuntu: apt install python3-venv. Or name another one: make PYTHON=/path/to/python3.12"
        pip_from_host || pip_as_target || pip_on_path || pip_from_wheel || stop \
            "'$PYTHON' has neither ensurepip nor pip, so nothing can be installed into $VENV." \
            "On Debian and Ubuntu: apt install python3-venv (or python3-pip). Then run make again."
    fi
fi

echo "tenfold: installing into $VENV (once, and again when pyproject.toml or constraints.txt change)"
in_venv -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
    --editable '.[dev,docs,frameworks,bench,chat,eval,inspect,jobs,mcp,models,postgres,sdk,serve]' --editable yardstick || stop "pip could not install the development tools." \
    "Its message is above. pip uses the index this machine is configured for; see 'pip config list'."
