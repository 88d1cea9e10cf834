#!/bin/sh
# Installs the clients that are run through the gateway into .clients: those from npm by clients/NAME/package.json, those
# from PyPI by clients/NAME/requirements.txt. CLIENTS="pi codex" names some of them. What cannot be installed is said,
# written to .clients/NAME.failed for the page, and does not stop the others.
set -eu

VENV=${VENV:-.venv}
CLIENTS=${CLIENTS:-$(ls clients)}

mkdir -p .clients
for name in $CLIENTS; do
    if [ -f "clients/$name/requirements.txt" ]; then
        "$VENV/bin/python" -m yardstick.scripts.make_environments clients .clients "$name"
    elif [ -f "clients/$name/package.json" ]; then
        cmp -s "clients/$name/package.json" ".clients/$name/package.json" && continue
        echo "tenfold: making .clients/$name"
        rm -rf ".clients/$name" ".clients/$name.failed"
        mkdir -p ".clients/$name"
        cp "clients/$name/package.json" ".clients/$name/package.json"
        if ! (cd ".clients/$name" && npm install --no-audit --no-fund --loglevel=error > npm.txt 2>&1); then
            echo "tenfold: $name left out: npm cannot install it"
            echo "npm cannot install it" > ".clients/$name.failed"
            rm -rf ".clients/$name"
        fi
    fi
done
