#!/bin/sh
# Makes one environment a peer: .peers/NAME from yardstick/peers/NAME/requirements.txt, with the pip of $VENV.
# PEERS="langchain agno" names some of them. What cannot be installed is said, written to .peers/NAME.failed for the
# reports, and does not stop the others. An environment whose requirements did not change is left alone.
# FROM=kits PEERS="conpact" does the same for the public kits: .kits/NAME from yardstick/kits/NAME/requirements.txt.
set -eu

VENV=${VENV:-.venv}
FROM=${FROM:-peers}
IN=${IN:-yardstick/$FROM}
PEERS=${PEERS:-$(ls "$IN" | grep -v common)}

# The first interpreter of at least the given version that runs; environments may need a newer one than Tenfold's own.
interpreter() {
    for found in "$VENV/bin/python" python3 python3.12 python3.13 "$HOME"/.pyenv/versions/3.1[23]*/bin/python3; do
        "$found" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$1'.split('.'))))" 2>/dev/null || continue
        echo "$found"
        return 0
    done
    return 1
}

failed() {
    echo "tenfold: $1 left out: $2"
    rm -rf ".$FROM/$1"
    echo "$2" > ".$FROM/$1.failed"
}

mkdir -p .$FROM
for name in $PEERS; do
    wanted=$IN/$name/requirements.txt
    [ -f "$wanted" ] || { echo "tenfold: no peer is called '$name': there is no $wanted" >&2; exit 1; }
    cmp -s "$wanted" ".$FROM/$name/installed.txt" && continue
    least=$(sed -n 's/^# python >= //p' "$wanted")
    python=$(interpreter "${least:-3.11}") || { failed "$name" "it needs Python $least, which is not here"; continue; }
    echo "tenfold: making .$FROM/$name"
    rm -rf ".$FROM/$name" ".$FROM/$name.failed"
    "$python" -m venv --without-pip ".$FROM/$name"
    if "$VENV/bin/python" -m pip --python ".$FROM/$name/bin/python" install --quiet --disable-pip-version-check \
        --requirement "$wanted" 2> ".$FROM/$name/pip.txt"
    then
        cp "$wanted" ".$FROM/$name/installed.txt"
    else
        failed "$name" "$(grep -m 1 ERROR ".$FROM/$name/pip.txt" || tail -n 1 ".$FROM/$name/pip.txt")"
    fi
done
