"""Asks the reference library, in an environment of its own, to evaluate cases in bulk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

_SCRIPT = """
import json, sys
from toolscore import evaluate

answers = []
for case in json.load(sys.stdin):
    try:
        result = evaluate(case["expected"], case["actual"], weights=case.get("weights"),
                          strict=case.get("strict", False), forbidden=case.get("forbidden"))
        record = result.to_dict()
        record.pop("calls")
        answers.append(record)
    except Exception as error:
        answers.append({"exception": f"{type(error).__name__}: {error}"})
json.dump(answers, sys.stdout)
"""


def ask_oracle(python: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reference library's record of each case, without its calls.

    Args:
        python: the interpreter that has the library (the fixture ``oracle_python``).
        cases: mappings with ``expected``, ``actual`` and optionally ``weights``, ``strict``,
            ``forbidden``.

    Returns:
        One record a case, or ``{"exception": text}`` where the library raised.
    """
    done = subprocess.run(
        [str(python), "-c", _SCRIPT],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
