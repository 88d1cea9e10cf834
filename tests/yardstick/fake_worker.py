"""A worker for the tests: it speaks the peers' protocol and does what its first argument says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(behaviour: str) -> None:
    """Answers each request until standard input ends."""
    if behaviour == "dies":
        sys.exit("no module named peer")
    for number, line in enumerate(sys.stdin, 1):
        request = json.loads(line)
        answer: dict[str, object] = {"id": request["id"]}
        if behaviour == "keeps":
            kept = request["messages"][-2:]
            answer |= {"messages": kept, "note": f"asked {number} times", "seconds": 0.25}
            answer |= {"spent_input": 30, "spent_output": 3}
        elif behaviour == "turns":
            turns = request["turns"]
            answer["seconds"] = [len(request["messages"]), len(turns), len(turns[-1]), request["limit"]]
        elif behaviour == "refuses":
            answer["unable"] = f"{request['method']} asks a server"
        elif behaviour == "sleeps":
            time.sleep(60)
        elif behaviour == "surroundings":
            names = json.dumps({**os.environ, "cwd": str(Path.cwd())})
            answer |= {"messages": [{"role": "user", "content": names}]}
        if behaviour == "babbles":
            print("Welcome to the peer!", flush=True)
        else:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
