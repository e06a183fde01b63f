"""Random calls, gold lists and contracts, the same for the same seed, for comparing two scorers."""

from __future__ import annotations

from random import Random
from typing import Any

Call = dict[str, Any]

# Values that some way of comparing holds equal and another does not. There is a false but no 0, and
# a 1 but no true: the reference library holds those equal.
VALUES: tuple[Any, ...] = (
    1,
    2,
    1.0,
    2.5,
    "a",
    "a ",
    "\u2003a\n",
    "b",
    "5",
    5,
    "",
    None,
    False,
    [1],
    [1.0],
    ["a", "a "],
    {"k": 1},
    {"k": 1.0},
    {"k": [" x", {"n": None}]},
)
MATCHERS: tuple[Any, ...] = (
    {"$regex": "^a"},
    {"$contains": "a"},
    {"$contains": 1},
    {"$one_of": ["b", 1, {"$regex": "x"}]},
    {"$any": True},
    {"$type": "integer"},
    {"$type": ["number", "null"]},
    {"$approx": {"value": 2, "abs": 0.5}},
    {"k": {"$type": "number"}},
    [{"$any": True}],
    {"$literal": {"k": 1}},
)
ERRORS: tuple[Any, ...] = ("bad", "", None, {}, {"message": "no"}, False, [], 0, 0.0, " ")
WEIGHTS = (
    "selection_accuracy",
    "argument_f1",
    "sequence_accuracy",
    "redundant_rate",
    "required_call_recall",
)


def random_args(random: Random, values: tuple[Any, ...] = VALUES, most: int = 3) -> dict[str, Any]:
    """Up to ``most`` arguments."""
    names = random.sample(["w", "x", "y", "z"], random.randint(0, most))
    return {name: random.choice(values) for name in names}


def random_expected(random: Random, tools: str, values: tuple[Any, ...] = VALUES) -> Call:
    """An expected call, with arguments three times out of four."""
    call: Call = {"tool": random.choice(tools)}
    if random.random() < 0.75:
        call["args"] = random_args(random, values)
    elif random.random() < 0.2:
        call["args"] = None
    return call


def random_calls(random: Random, expected: list[Call], tools: str, most: int) -> list[Call]:
    """Recorded calls, many of them like an expected one or like the call before."""
    calls: list[Call] = []
    for _ in range(random.randint(0, most)):
        call: Call = {"tool": random.choice(tools), "args": random_args(random)}
        if expected and random.random() < 0.4:
            model = random.choice(expected)
            call["tool"] = model["tool"]
            plain = {
                name: value
                for name, value in (model.get("args") or {}).items()
                if value not in MATCHERS
            }
            call["args"] = {**call["args"], **plain} if random.random() < 0.3 else plain
        outcome = random.random()
        if outcome < 0.15:
            call["is_error"] = True
        elif outcome < 0.3:
            call["error"] = random.choice(ERRORS)
        elif outcome < 0.4:
            call["result"] = random.choice([1, "done", {"k": 1}])
        if random.random() < 0.05:
            del call["args"]
        calls.append(call)
        if random.random() < 0.15:
            calls.append(dict(call))
    return calls[:most]


def random_weights(random: Random) -> dict[str, float] | None:
    """Some weights, or None for the defaults."""
    if random.random() < 0.6:
        return None
    names = random.sample(WEIGHTS, random.randint(0, 4))
    return {name: random.choice([0.1, 0.3, 0.5, 1, 3]) for name in names}


def gold_case(random: Random, most: int = 5) -> dict[str, Any]:
    """A case both this project and the reference library can score; ``most`` calls on a side."""
    tools = random.choice(["a", "ab", "aabbc"])
    expected = [random_expected(random, tools) for _ in range(random.randint(0, most))]
    return {
        "expected": expected,
        "actual": random_calls(random, expected, tools + random.choice(["", "d"]), most),
        "weights": random_weights(random),
        "strict": random.random() < 0.3,
    }


def contract_case(random: Random, most: int = 5) -> dict[str, Any]:
    """A contract with groups, optional calls, repeated tools and nested matchers, and calls."""
    values = VALUES + MATCHERS
    tools = random.choice(["a", "ab", "aabbc"])
    expected = [random_expected(random, tools, values) for _ in range(random.randint(1, most))]
    required: list[Any] = []
    left = list(expected)
    while left:
        if random.random() < 0.4:
            options = [
                [random_expected(random, tools, values) for _ in range(random.randint(0, 2))]
                for _ in range(random.randint(0, 2))
            ]
            options.insert(random.randint(0, len(options)), [left.pop()])
            required.append({"alternatives": options})
        else:
            required.append(left.pop())
    contract: dict[str, Any] = {
        "contract_version": 2,
        "required": required,
        "optional": [
            random_expected(random, tools + "o", values) for _ in range(random.randint(0, 3))
        ],
    }
    weights = random_weights(random)
    if weights:
        contract["weights"] = weights
    return {
        "expected": contract,
        "actual": random_calls(random, expected, tools + "o", most),
        "strict": random.random() < 0.3,
    }
