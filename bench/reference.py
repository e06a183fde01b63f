"""The reference library on run rows: ``python reference.py ROWS GOLD SAMPLE`` prints JSON.

It prints the seconds that evaluating every row took and, of SAMPLE rows spread over the file, what
it found. It runs in the environment of the reference library (`make oracle`) and imports nothing of
ours.
"""

import json
import sys
import time


def main() -> None:
    """Evaluate every row; print what it took, and what some came to."""
    from toolscore import evaluate  # type: ignore[import-not-found]

    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(sys.argv[2], encoding="utf-8") as file:
        gold = json.load(file)
    started = time.perf_counter()
    for row in rows:
        evaluate(gold[row["task_id"]], row["calls"]).to_dict()
    seconds = time.perf_counter() - started
    step = max(1, len(rows) // max(1, int(sys.argv[3])))
    found = []
    for row in rows[::step]:
        record = evaluate(gold[row["task_id"]], row["calls"]).to_dict()
        run = [row["task_id"], row["arm_id"], row["repetition"]]
        found.append({"run": run, "score": record["score"], "metrics": record["metrics"]})
    print(json.dumps({"runs": len(rows), "seconds": seconds, "sample": found}))


main()
