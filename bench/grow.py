"""Run rows in any number, drawn from a seeded model of recorded agent runs on a memory server.

The shapes (tools, argument structures, calls per run, sizes of results, wordings of answers) follow
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
# Calls per run, and which tool how often, as recorded: most runs make one to three.
CALL_COUNTS = (0,) + (1,) * 10 + (2,) * 14 + (3,) * 9 + (4,) * 6 + (5,) * 6 + (6,) * 3 + (8,)
TOOLS = (
    ("search_nodes",) * 40 + ("create_entities",) * 22 + ("add_observations",) * 21
    + ("create_relations",) * 16 + ("read_graph",)
)  # fmt: skip
# More calls fail than did when it was recorded (2 of 871): what is said of them is to be judged.
FAILURES = 0.03
ERRORS = (
    "Entity with name {person} not found",
    '{{"error": {{"code": 404, "message": "no entity {person}"}}}}',
    "MCP error -32603: ENOENT: no such file or directory, open 'memory.jsonl'",
    "Request timed out after 30 s",
)
ANSWERS = (
    "Noted in my memory: {person} {fact}.",
    "Noted in my memory: {person} {fact}, and the team offsite should account for this.",
    "Got it \u2014 I\u2019ll remember that {person} {fact}.",
    "Got it \u2014 I\u2019ve added that {person} {fact} to my memory.",
    "I have remembered that {person} {fact}. Is there anything else you'd like me to remember?",
    "Got it. I've noted that {person} {fact}, and I'll keep that in mind. Anything else?",
    "Remembering... I have noted that {person} {fact}. Is there anything else I can help you with?",
    "Here is what I know now:\n\n- **{person}** {fact}\n- met at the offsite\n\nAll is saved.",
    "{person} {fact}.",
)
ADMISSIONS = (
    "I could not save that {person} {fact}: the memory server said it was not found.",
    "Sorry, storing this failed. {person} {fact}, but my memory does not hold it yet.",
    "I tried twice and got an error both times, so nothing was saved about {person}.",
)


def gold(tasks: int = len(TASKS)) -> dict[str, list[dict[str, Any]]]:
    """One gold list per task, as the reference and this project are both given.

    Args:
        tasks: how many; the first twelve have the names of the recorded scenarios.
    """
    return {name: _gold(number, name) for number, name in enumerate(_task_names(tasks))}


def _gold(number: int, task: str) -> list[dict[str, Any]]:
    person = PEOPLE[number % len(PEOPLE)]
    if task.startswith("n"):
        return [{"tool": "create_entities"}, {"tool": "create_relations"}]
    rng = random.Random(number)
    stored = [{"entityName": person, "contents": [_fact(rng)]}]
    return [
        {"tool": "search_nodes", "args": {"query": person}},
        {"tool": "add_observations", "args": {"observations": stored}},
    ][: 1 + number % 4]


def many_ways(combinations: int) -> dict[str, Any]:
    """A contract for every task that may be met in so many ways (a power of two)."""
    options = [[{"tool": "search_nodes"}], [{"tool": "create_entities"}]]
    groups = [{"alternatives": options} for _ in range(combinations.bit_length() - 1)]
    return {
        "contract_version": 2,
        "task": "*",
        "required": [*groups, {"tool": "add_observations"}],
    }


def _task_names(count: int) -> list[str]:
    return [*TASKS[:count], *(f"u{number:03}" for number in range(len(TASKS), count))]


def _fact(rng: random.Random) -> str:
    return f"{rng.choice(VERBS)} {rng.choice(PLACES + THINGS)} {rng.randrange(1000)}"


def _words(rng: random.Random, size: int) -> str:
    """Text of ``size`` bytes: facts, one after the other."""
    parts, length = [], 0
    while length < size:
        parts.append(f"{_fact(rng)}. ")
        length += len(parts[-1])
    return "".join(parts)[:size]


def _call(rng: random.Random, person: str, argument_bytes: int) -> dict[str, Any]:
    tool = rng.choice(TOOLS)
    fact = _words(rng, argument_bytes) if argument_bytes else _fact(rng)
    if tool == "search_nodes":
        query = person if rng.random() < 0.5 else f"{person} {rng.choice(THINGS)}"
        query = fact if argument_bytes else query
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
        return _done(rng, person, tool, {"query": query}, orjson.dumps(found).decode())
    if tool == "read_graph":
        return _done(rng, person, tool, {}, '{"entities":[]}')
    if tool == "add_observations":
        contents = [fact] + ([_fact(rng)] if rng.random() < 0.3 else [])
        args: dict[str, Any] = {"observations": [{"entityName": person, "contents": contents}]}
        return _done(rng, person, tool, args, orjson.dumps([{"added": contents}]).decode())
    if tool == "create_entities":
        entity = {"name": f"{person} {fact}", "entityType": "event", "observations": [fact]}
        result = orjson.dumps([entity]).decode()
        return _done(rng, person, tool, {"entities": [entity]}, result)
    relation = {"from": person, "to": rng.choice(PEOPLE), "relationType": fact}
    result = orjson.dumps([relation]).decode()
    return _done(rng, person, tool, {"relations": [relation]}, result)


def _done(
    rng: random.Random, person: str, tool: str, args: dict[str, Any], result: str
) -> dict[str, Any]:
    is_error = rng.random() < FAILURES
    result = rng.choice(ERRORS).format(person=person) if is_error else result
    return {"tool": tool, "args": args, "is_error": is_error, "result": result}


def _answer(rng: random.Random, person: str, calls: list[dict[str, Any]]) -> str:
    failed = any(call["is_error"] for call in calls)
    texts = ADMISSIONS if failed and rng.random() < 0.5 else ANSWERS
    return rng.choice(texts).format(person=person, fact=_fact(rng))


def rows(
    count: int,
    *,
    seed: int = 7,
    calls_per_run: int = 0,
    repeat: float = 0.0,
    argument_bytes: int = 0,
    tasks: int = len(TASKS),
) -> Iterator[dict[str, Any]]:
    """``count`` run rows.

    Args:
        count: how many.
        seed: the seed of the model.
        calls_per_run: calls of every run; 0 draws them as recorded.
        repeat: the share of runs whose calls and answer are those of an earlier run.
        argument_bytes: the size of one argument of every call; 0 draws words as recorded.
        tasks: how many tasks, and with :func:`gold` contracts, there are.
    """
    rng = random.Random(seed)
    names = _task_names(tasks)
    pool: list[dict[str, Any]] = []
    for number in range(count):
        task = number % tasks
        if pool and rng.random() < repeat:
            body = rng.choice(pool)
        else:
            # Mostly the one that the task is about.
            person = PEOPLE[task % len(PEOPLE)] if rng.random() < 0.8 else rng.choice(PEOPLE)
            calls = [
                _call(rng, person, argument_bytes)
                for _ in range(calls_per_run or rng.choice(CALL_COUNTS))
            ]
            body = {
                "calls": calls,
                "final_answer": _answer(rng, person, calls),
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
            "task_id": names[task],
            "arm_id": ("main", "c1")[number // tasks % 2],
            "repetition": number // (2 * tasks),
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
    parser.add_argument("--argument-bytes", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=len(TASKS))
    given = parser.parse_args()
    write(
        given.path,
        given.count,
        seed=given.seed,
        calls_per_run=given.calls_per_run,
        repeat=given.repeat,
        argument_bytes=given.argument_bytes,
        tasks=given.tasks,
    )
