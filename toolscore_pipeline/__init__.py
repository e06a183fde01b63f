"""Grade what LLM agents did: traces of tool calls, contracts about them, and proof of both."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolscore_pipeline.api import (
        evaluate,
        evaluate_contract,
        evaluate_many,
        evaluate_trace,
    )
    from toolscore_pipeline.contract import (
        AlternativeGroup,
        Contract,
        load_contract,
        load_forbidden_rules,
        rules_from_json,
    )
    from toolscore_pipeline.credentials import find_credentials, redact_secrets, redact_value
    from toolscore_pipeline.expectations import ToolScoreAssertionError, assert_tools, expect
    from toolscore_pipeline.export import validate_record
    from toolscore_pipeline.matchers import ANY, Approx, Contains, IsType, Matcher, OneOf, Regex
    from toolscore_pipeline.receipts import Regrade, build_receipt, regrade
    from toolscore_pipeline.result import EvaluationResult
    from toolscore_pipeline.stats import (
        compare_runs,
        evaluate_protocol,
        load_runs,
        run_from_row,
        select_variant,
    )

__version__ = "0.1.0"

_HOMES = {
    "toolscore_pipeline.api": ("evaluate", "evaluate_contract", "evaluate_many", "evaluate_trace"),
    "toolscore_pipeline.contract": (
        "AlternativeGroup",
        "Contract",
        "load_contract",
        "load_forbidden_rules",
        "rules_from_json",
    ),
    "toolscore_pipeline.credentials": ("find_credentials", "redact_secrets", "redact_value"),
    "toolscore_pipeline.expectations": ("ToolScoreAssertionError", "assert_tools", "expect"),
    "toolscore_pipeline.export": ("validate_record",),
    "toolscore_pipeline.matchers": (
        "ANY",
        "Approx",
        "Contains",
        "IsType",
        "Matcher",
        "OneOf",
        "Regex",
    ),
    "toolscore_pipeline.receipts": ("Regrade", "build_receipt", "regrade"),
    "toolscore_pipeline.result": ("EvaluationResult",),
    "toolscore_pipeline.stats": (
        "compare_runs",
        "evaluate_protocol",
        "load_runs",
        "run_from_row",
        "select_variant",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ANY",
    "AlternativeGroup",
    "Approx",
    "Contains",
    "Contract",
    "EvaluationResult",
    "IsType",
    "Matcher",
    "OneOf",
    "Regex",
    "Regrade",
    "ToolScoreAssertionError",
    "__version__",
    "assert_tools",
    "build_receipt",
    "compare_runs",
    "evaluate",
    "evaluate_contract",
    "evaluate_many",
    "evaluate_protocol",
    "evaluate_trace",
    "expect",
    "find_credentials",
    "load_contract",
    "load_forbidden_rules",
    "load_runs",
    "redact_secrets",
    "redact_value",
    "regrade",
    "rules_from_json",
    "run_from_row",
    "select_variant",
    "validate_record",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: importing the package stays cheap."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
