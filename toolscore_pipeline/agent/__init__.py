"""The agent harness: run tasks with real models on MCP servers, guarded, budgeted, resumable.

The names below are imported on first use, so that ``import toolscore_pipeline.agent`` stays cheap;
the ``mcp``, ``openai`` and ``anthropic`` packages are imported only when a run needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolscore_pipeline.agent.budget import Budget, Limits
    from toolscore_pipeline.agent.guard import (
        Decision,
        Guard,
        GuardCall,
        allow,
        deny,
        rules_guard,
    )
    from toolscore_pipeline.agent.loop import AgentRun, CallRecord, run_agent
    from toolscore_pipeline.agent.mcp_client import (
        MCPClient,
        MCPHTTPClient,
        MCPServerError,
        MCPServerSpec,
        MCPStdioClient,
        open_client,
    )
    from toolscore_pipeline.agent.prices import Price, Usage, find_price
    from toolscore_pipeline.agent.providers import (
        AnthropicMessagesProvider,
        OpenAIResponsesProvider,
        Provider,
        ProviderError,
        ScriptedProvider,
    )
    from toolscore_pipeline.agent.rows import RUN_RECORD_VERSION, RUN_ROW_SCHEMA_PATH
    from toolscore_pipeline.agent.spec import AgentSpec, Arm, SpecError, Task, load_agent_spec
    from toolscore_pipeline.agent.study import BuildError, StudyResult, run_study

_HOMES = {
    "budget": ("Budget", "Limits"),
    "guard": ("Decision", "Guard", "GuardCall", "allow", "deny", "rules_guard"),
    "loop": ("AgentRun", "CallRecord", "run_agent"),
    "mcp_client": (
        "MCPClient", "MCPHTTPClient", "MCPServerError", "MCPServerSpec", "MCPStdioClient",
        "open_client",
    ),
    "prices": ("Price", "Usage", "find_price"),
    "providers": (
        "AnthropicMessagesProvider", "OpenAIResponsesProvider", "Provider", "ProviderError",
        "ScriptedProvider",
    ),
    "rows": ("RUN_RECORD_VERSION", "RUN_ROW_SCHEMA_PATH"),
    "spec": ("AgentSpec", "Arm", "SpecError", "Task", "load_agent_spec"),
    "study": ("BuildError", "StudyResult", "run_study"),
}  # fmt: skip
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "RUN_RECORD_VERSION",
    "RUN_ROW_SCHEMA_PATH",
    "AgentRun",
    "AgentSpec",
    "AnthropicMessagesProvider",
    "Arm",
    "Budget",
    "BuildError",
    "CallRecord",
    "Decision",
    "Guard",
    "GuardCall",
    "Limits",
    "MCPClient",
    "MCPHTTPClient",
    "MCPServerError",
    "MCPServerSpec",
    "MCPStdioClient",
    "OpenAIResponsesProvider",
    "Price",
    "Provider",
    "ProviderError",
    "ScriptedProvider",
    "SpecError",
    "StudyResult",
    "Task",
    "Usage",
    "allow",
    "deny",
    "find_price",
    "load_agent_spec",
    "open_client",
    "rules_guard",
    "run_agent",
    "run_study",
]


def __getattr__(name: str) -> Any:
    """Import a name of this package from its module on first use."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
