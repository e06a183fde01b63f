"""The real SDKs, unpatched, against a local server that speaks their wire formats."""

from __future__ import annotations

import time

import pytest

from tests.agent_helpers import FakeServer
from tests.agent_http import Trouble, model_server
from toolscore_pipeline.agent import Budget, Limits, Price, run_agent
from toolscore_pipeline.agent.providers import make_provider
from toolscore_pipeline.errors import SettingsError

KEY = "sk-test-0123456789abcdefghij"
PRICE = Price(1.0, 10.0, "test")
MODELS = {"openai": "gpt-6-luna", "anthropic": "claude-haiku-5-5"}


@pytest.fixture(params=["openai", "anthropic"])
def api(request):
    return request.param


@pytest.fixture
def ask(api, monkeypatch):
    """Run one task against a local server with the real SDK of the provider."""

    def run(server, **settings):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        settings.setdefault("price", PRICE)
        provider = make_provider(api, MODELS[api])
        tools = settings.pop("tools", None) or FakeServer()
        return run_agent(tools, provider, "Save a note.", **settings)

    return run


def saves_then_says(request, number):
    """Two parallel calls, then an answer."""
    turns = request.get("input") or request["messages"]
    if len(turns) == 1:
        return [("call", ("save_note", {"title": "ä"})), ("call", ("save_note", {"title": "b"}))]
    return [("text", "Saved both.")]


def test_a_whole_run_over_http_with_parallel_calls(ask):
    tools = FakeServer()
    with model_server(saves_then_says) as server:
        run = ask(server, tools=tools, system="Be brief.")
    assert (run.status, run.final_answer, run.turns) == ("completed", "Saved both.", 2)
    assert tools.calls == [("save_note", {"title": "ä"}), ("save_note", {"title": "b"})]
    # What the run counted is what the server bills.
    assert run.cost_usd == pytest.approx(server.billed_usd(1.0, 10.0), abs=1e-12)
    assert server.keys[0] in (KEY, f"Bearer {KEY}")


def test_a_rate_limit_over_http_is_waited_out_without_the_sdks_own_retries(ask):
    limited = Trouble(429, body={"error": {"message": "slow down"}}, headers={"retry-after": "3"})
    waits: list[float] = []
    with model_server(lambda request, n: limited if n < 2 else [("text", "Ok")]) as server:
        run = ask(server, sleep=waits.append)
    assert (run.status, run.retries, waits) == ("completed", 2, [3.0, 3.0])
    assert len(server.requests) == 3
    assert run.cost_usd == pytest.approx(server.billed_usd(1.0, 10.0), abs=1e-12)


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503, 529])
def test_other_errors_over_http_are_asked_once_and_show_no_key(ask, status):
    body = {"type": "error", "error": {"type": "odd_error", "message": f"bad key {KEY}"}}
    with model_server(lambda request, n: Trouble(status, body=body)) as server:
        run = ask(server)
    assert (run.status, len(server.requests)) == ("error", 1)
    assert f"HTTP {status}" in str(run.error)
    assert (run.cost_usd, run.counted_usd) == (0.0, 0.0)


def test_a_slow_answer_times_out_and_counts_its_worst_case(ask):
    budget = Budget(max_usd=1)
    started = time.monotonic()
    with model_server(lambda request, n: Trouble(delay=5)) as server:
        run = ask(server, limits=Limits(model_timeout=0.5), budget=budget)
        assert len(server.requests) == 1
    assert time.monotonic() - started < 5
    assert (run.status, run.cost_usd) == ("error", None)
    assert "APITimeoutError" in str(run.error)
    assert budget.spent_usd > 0.01024  # 1024 output tokens at $10 per million


def test_a_dropped_connection_counts_its_worst_case(ask):
    budget = Budget(max_usd=1)
    with model_server(lambda request, n: Trouble(is_dropped=True)) as server:
        run = ask(server, budget=budget)
        assert len(server.requests) == 1
    assert (run.status, run.cost_usd) == ("error", None)
    assert budget.spent_usd > 0.01024


def test_an_answer_that_is_no_json_is_an_error_of_the_provider(ask):
    with model_server(lambda request, n: Trouble(200, body=b"<html>")) as server:
        run = ask(server)
    assert run.status == "error"
    assert "provider" in str(run.error)


def test_an_answer_of_another_shape_is_an_error_of_the_provider(ask):
    with model_server(lambda request, n: Trouble(200, body={"hello": "world"})) as server:
        run = ask(server)
    assert run.status == "error"
    assert run.counted_usd > 0  # it was answered, so it may be billed


def test_a_missing_key_is_named_and_nothing_is_asked(api, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match=f"the key {api.upper()}_API_KEY is not set"):
        make_provider(api, MODELS[api])
