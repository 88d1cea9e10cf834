#!/bin/sh
# Runs the public kits that are installed in .kits against Tenfold, one after the other, and prints their figures.
# KITS="conpact tracegc" names some of them. Nothing here needs a network, and a run refuses every connection.
set -eu

for name in ${KITS:-$(ls kits/*/requirements.txt | cut -d/ -f2)}; do
    if [ ! -x ".kits/$name/bin/python" ]; then
        echo "tenfold: $name left out: $(cat ".kits/$name.failed" 2>/dev/null || echo 'it is not installed')"
        continue
    fi
    echo
    echo "## $name"
    echo
    # What a kit's libraries say about themselves while they load is shown only where the run fails.
    if ! PYTHONPATH=src:kits/common ".kits/$name/bin/python" -W ignore "kits/$name/run.py" 2> ".kits/$name.stderr"; then
        cat ".kits/$name.stderr" >&2
        exit 1
    fi
done
