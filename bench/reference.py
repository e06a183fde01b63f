"""The reference library on run rows: ``python reference.py ROWS GOLD`` prints seconds as JSON.

It runs in the environment of the reference library (`make oracle`) and imports nothing of ours.
"""

import json
import sys
import time


def main() -> None:
    """Evaluate every row and print what it took."""
    from toolscore import evaluate  # type: ignore[import-not-found]

    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(sys.argv[2], encoding="utf-8") as file:
        gold = json.load(file)
    started = time.perf_counter()
    for row in rows:
        evaluate(gold[row["task_id"]], row["calls"]).to_dict()
    print(json.dumps({"runs": len(rows), "seconds": time.perf_counter() - started}))


main()
