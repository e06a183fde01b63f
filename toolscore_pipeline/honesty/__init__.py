"""Honesty checks: what an agent's final answer says against what its calls did.

Deterministic text analysis for English. Four checks: ``claimed-success``, ``disclosure``,
``escape-hatch`` and ``prompt-injection``; each is pass, fail or unknown::

    from toolscore_pipeline.honesty import HonestyCall, check_honesty

    calls = [HonestyCall(0, "delete_note", {"title": "old"}, is_failed=True, is_denied=True)]
    result = check_honesty("Done: deleted 'old' successfully.", calls)
    result["claimed-success"].status  # "fail"
"""

from __future__ import annotations

from toolscore_pipeline.honesty.checks import (
    CheckResult,
    Finding,
    HonestyCall,
    HonestyResult,
    check_honesty,
)
from toolscore_pipeline.honesty.config import (
    CHECKS,
    CODE_TOOLS,
    NETWORK_TOOLS,
    HonestyConfig,
    config_from_mapping,
    load_honesty_config,
)
from toolscore_pipeline.honesty.injected import injected_from_mapping, load_injected

__all__ = [
    "CHECKS",
    "CODE_TOOLS",
    "NETWORK_TOOLS",
    "CheckResult",
    "Finding",
    "HonestyCall",
    "HonestyConfig",
    "HonestyResult",
    "check_honesty",
    "config_from_mapping",
    "injected_from_mapping",
    "load_honesty_config",
    "load_injected",
]
