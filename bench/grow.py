"""Run rows in any number, drawn from a seeded model of recorded agent runs on a memory server.

The shapes (tools, argument structures, calls per run, sizes of results, share of failures) follow
312 recorded runs; the words are drawn anew for every run, so that no two runs are copies unless
``repeat`` asks for it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

PEOPLE = ("Alice", "Bob", "Dana", "Omer", "Noa", "Ines", "Ravi", "Lena", "Tomas", "Yuki")
PLACES = ("Berlin", "Lisbon", "Oslo", "Porto", "Turin", "Ghent", "Kyoto", "Quito", "Malmo", "Split")
THINGS = (
    "penicillin",
    "marathon",
    "Italian",
    "Figma",
    "piano",
    "chess",
    "sailing",
    "opera",
    "yoga",
)
VERBS = ("moved to", "is learning", "works with", "is allergic to", "was promoted to", "likes")
TASKS = ("u01", "u02", "u03", "u04", "u05", "u06", "u07", "u08", "u09", "u10", "n01", "n02")
# Calls per run as recorded: most runs make two to four.
CALL_COUNTS = (1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6)

#: One gold list per task, as the oracle and this project are both given.
GOLD: dict[str, list[dict[str, Any]]] = {
    task: (
        [{"tool": "search_nodes", "args": {"query": PEOPLE[i % 10]}}, {"tool": "add_observations"}]
        if task.startswith("u")
        else [{"tool": "create_entities"}, {"tool": "create_relations"}]
    )
    for i, task in enumerate(TASKS)
}


def _fact(rng: random.Random) -> str:
    return f"{rng.choice(VERBS)} {rng.choice(PLACES + THINGS)} {rng.randrange(1000)}"


def _call(rng: random.Random, person: str, calls_per_run: int) -> dict[str, Any]:
    kind = rng.random()
    fact = _fact(rng)
    if kind < 0.42:
        query = person if rng.random() < 0.5 else f"{person} {rng.choice(THINGS)}"
        found = (
            {"entities": [], "relations": []}
            if rng.random() < 0.4
            else {
                "entities": [
                    {
                        "name": person,
                        "entityType": "person",
                        "observations": [_fact(rng) for _ in range(rng.randrange(1, 6))],
                    }
                    for _ in range(rng.randrange(1, 4))
                ],
                "relations": [{"from": "default_user", "to": person, "relationType": "works_with"}],
            }
        )
        return _done(rng, "search_nodes", {"query": query}, orjson.dumps(found).decode())
    if kind < 0.55:
        return _done(rng, "open_nodes", {"names": [person, rng.choice(PEOPLE)]}, '{"entities":[]}')
    if kind < 0.78:
        contents = [fact] + ([_fact(rng)] if rng.random() < 0.3 else [])
        args: dict[str, Any] = {"observations": [{"entityName": person, "contents": contents}]}
        return _done(rng, "add_observations", args, orjson.dumps([{"added": contents}]).decode())
    if kind < 0.92:
        entity = {"name": f"{person} {fact}", "entityType": "event", "observations": [fact]}
        return _done(
            rng, "create_entities", {"entities": [entity]}, orjson.dumps([entity]).decode()
        )
    relation = {"from": person, "to": rng.choice(PEOPLE), "relationType": fact}
    return _done(
        rng, "create_relations", {"relations": [relation]}, orjson.dumps([relation]).decode()
    )


def _done(rng: random.Random, tool: str, args: dict[str, Any], result: str) -> dict[str, Any]:
    if rng.random() < 0.03:
        return {"tool": tool, "args": args, "is_error": True, "result": f"{tool}: not found"}
    return {"tool": tool, "args": args, "is_error": False, "result": result}


def rows(
    count: int, *, seed: int = 7, calls_per_run: int = 0, repeat: float = 0.0
) -> Iterator[dict[str, Any]]:
    """``count`` run rows.

    Args:
        count: how many.
        seed: the seed of the model.
        calls_per_run: calls of every run; 0 draws them as recorded.
        repeat: the share of runs whose calls and answer are those of an earlier run.
    """
    rng = random.Random(seed)
    pool: list[dict[str, Any]] = []
    for number in range(count):
        task = TASKS[number % len(TASKS)]
        variant = ("main", "c1")[number // len(TASKS) % 2]
        if pool and rng.random() < repeat:
            body = rng.choice(pool)
        else:
            person = rng.choice(PEOPLE)
            calls = [
                _call(rng, person, calls_per_run)
                for _ in range(calls_per_run or rng.choice(CALL_COUNTS))
            ]
            body = {
                "calls": calls,
                "final_answer": f"Noted in my memory: {person} {_fact(rng)}.",
                "usage": {
                    "input_tokens": rng.randrange(2000, 9000),
                    "output_tokens": rng.randrange(99, 900),
                },
                "cost_usd": round(rng.uniform(0.0005, 0.004), 7),
                "duration_s": round(rng.uniform(2, 15), 1),
            }
            if len(pool) < 500:
                pool.append(body)
        yield {
            "run_record_version": "1",
            "task_id": task,
            "arm_id": variant,
            "repetition": number // (2 * len(TASKS)),
            "status": "completed",
            "model": "small",
            **body,
        }


def write(path: Path, count: int, **options: Any) -> Path:
    """Write run rows as JSON Lines; returns the path."""
    with path.open("wb") as file:
        for row in rows(count, **options):
            file.write(orjson.dumps(row) + b"\n")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--calls-per-run", type=int, default=0)
    parser.add_argument("--repeat", type=float, default=0.0)
    given = parser.parse_args()
    write(
        given.path,
        given.count,
        seed=given.seed,
        calls_per_run=given.calls_per_run,
        repeat=given.repeat,
    )
