"""One run of the loop, with fake SDK clients built from the SDKs' own response types."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from tests.agent_helpers import (
    DeadServer,
    FakeSDK,
    FakeServer,
    anthropic_message,
    openai_response,
    sdk_error,
)
from toolscore_pipeline.agent import (
    AnthropicMessagesProvider,
    Budget,
    Limits,
    OpenAIResponsesProvider,
    Price,
    ScriptedProvider,
    allow,
    deny,
    rules_guard,
    run_agent,
)
from toolscore_pipeline.agent.mcp_client import Tool, ToolResult
from toolscore_pipeline.agent.providers import provider_names
from toolscore_pipeline.errors import SettingsError

Part = tuple[str, Any]
KEY = "sk-ant-api03-" + "Zx9TestKey0123456789abcdef" * 3
PRICE = Price(1.0, 10.0, "test")  # $1 and $10 per million tokens


def run_openai(replies, server=None, **settings):
    sdk = FakeSDK(replies)
    settings.setdefault("price", PRICE)
    provider = OpenAIResponsesProvider(sdk, "gpt-6-luna")
    run = run_agent(server or FakeServer(), provider, "Save a note.", **settings)
    return run, sdk


def run_anthropic(replies, server=None, **settings):
    sdk = FakeSDK(replies)
    settings.setdefault("price", PRICE)
    provider = AnthropicMessagesProvider(sdk, "claude-haiku-5-5")
    run = run_agent(server or FakeServer(), provider, "Save a note.", **settings)
    return run, sdk


# --- what models answer ---------------------------------------------------------------------------


def test_a_text_answer_completes_the_run_and_is_the_final_answer():
    run, sdk = run_openai([openai_response(("text", "Hello."))], system="Be brief.")
    assert (run.status, run.final_answer, run.turns, run.calls) == ("completed", "Hello.", 1, [])
    assert run.model == "gpt-6-luna-2026-09-01"
    # 100 input tokens at $1 and 20 output tokens at $10 per million: 0.0001 + 0.0002.
    assert run.cost_usd == pytest.approx(0.0003, abs=1e-15)
    request = sdk.requests[0]
    assert request["instructions"] == "Be brief."
    assert request["input"] == [{"role": "user", "content": "Save a note."}]
    assert [tool["name"] for tool in request["tools"]] == ["save_note", "delete_note"]


def test_parallel_calls_are_made_in_order_and_all_answered():
    server = FakeServer()
    calls = [("call", ("save_note", {"title": "a"})), ("call", ("save_note", {"title": "b"}))]
    replies = [openai_response(("reasoning", None), *calls), openai_response(("text", "Both."))]
    run, sdk = run_openai(replies, server)
    assert server.calls == [("save_note", {"title": "a"}), ("save_note", {"title": "b"})]
    assert [call.result for call in run.calls] == ["save_note done"] * 2
    assert run.final_answer == "Both."
    sent = sdk.requests[1]["input"]
    # The model's own items come back whole, reasoning first, then one output per call.
    assert [item.get("type") for item in sent[1:]] == [
        "reasoning", "function_call", "function_call", "function_call_output",
        "function_call_output",
    ]  # fmt: skip
    assert [item["call_id"] for item in sent[4:]] == ["call_1", "call_2"]


def test_anthropic_calls_are_answered_in_one_user_turn_with_error_flags():
    server = FakeServer(
        lambda tool, args: ToolResult(
            "no", is_error=tool == "delete_note", error="no" if tool == "delete_note" else None
        )
    )
    calls = [("call", ("save_note", {"title": "a"})), ("call", ("delete_note", {"title": "b"}))]
    replies = [anthropic_message(("text", "On it."), *calls), anthropic_message(("text", "Done."))]
    run, sdk = run_anthropic(replies, server, system="Be brief.")
    assert [(call.is_error, call.error) for call in run.calls] == [(False, None), (True, "no")]
    assert run.final_answer == "Done."
    assert sdk.requests[1]["system"] == "Be brief."
    roles = [message["role"] for message in sdk.requests[1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    results = sdk.requests[1]["messages"][2]["content"]
    assert [(block["tool_use_id"], block["is_error"]) for block in results] == [
        ("toolu_1", False),
        ("toolu_2", True),
    ]


def test_a_refusal_completes_the_run_with_the_refusal_as_its_answer():
    run, _ = run_openai([openai_response(("refusal", "I cannot help with that."))])
    assert (run.status, run.stop_reason) == ("completed", "refusal")
    assert run.final_answer == "I cannot help with that."


def test_calls_of_a_refused_turn_are_recorded_and_not_made():
    server = FakeServer()
    message = anthropic_message(("call", ("delete_note", {"title": "a"})), stop="refusal")
    run, _ = run_anthropic([message], server)
    assert server.calls == []
    assert run.calls[0].error == "not made: the model's turn ended with refusal"
    assert (run.status, run.final_answer) == ("completed", None)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_truncated_turn_reaches_a_limit_and_its_calls_are_not_made(api):
    server = FakeServer()
    if api == "openai":
        reply = openai_response(
            ("text", "I will"),
            ("call", ("save_note", '{"title": "a')),
            status="incomplete",
            incomplete="max_output_tokens",
        )
        run, _ = run_openai([reply], server)
        assert run.calls[0].args == {"raw": '{"title": "a'}
    else:
        call: Part = ("call", ("save_note", {}))
        reply = anthropic_message(("text", "I will"), call, stop="max_tokens")
        run, _ = run_anthropic([reply], server)
    assert (run.status, run.stop_reason) == ("limit_reached", "max_output_tokens")
    assert run.final_answer == "I will"
    assert server.calls == []
    assert str(run.calls[0].error).startswith("not made: ")


@pytest.mark.parametrize("arguments", [
    '{"title": ', "[1, 2]", '{"title": NaN}', '{"n": 1e999}', '"text"',
])  # fmt: skip
def test_malformed_arguments_never_reach_the_server_and_the_model_is_told(arguments):
    server = FakeServer()
    replies = [openai_response(("call", ("save_note", arguments))), openai_response(("text", "Ok"))]
    run, sdk = run_openai(replies, server)
    assert server.calls == []
    assert run.calls[0].args == {"raw": arguments}
    assert run.calls[0].is_error is True
    told = sdk.requests[1]["input"][-1]["output"]
    assert told == "the arguments are not a JSON object"
    assert run.status == "completed"


def test_arguments_that_are_no_json_never_reach_the_server_from_the_other_api_either():
    server = FakeServer()
    call = ("call", ("save_note", {"n": float("nan")}))
    run, _ = run_anthropic([anthropic_message(call), anthropic_message(("text", "Ok"))], server)
    assert server.calls == []
    assert run.calls[0].args == {"raw": '{"n": NaN}'}


def test_a_tool_the_server_does_not_have_is_an_error_for_the_model():
    server = FakeServer()
    replies = [openai_response(("call", ("format_disk", {}))), openai_response(("text", "Ok"))]
    run, _ = run_openai(replies, server)
    assert server.calls == []
    assert run.calls[0].error == "there is no tool 'format_disk'"


def test_an_endless_loop_of_calls_ends_at_the_turn_limit():
    server = FakeServer()
    run, sdk = run_openai(
        [openai_response(("call", ("save_note", {})))], server, limits=Limits(max_turns=4)
    )
    assert (run.status, run.stop_reason) == ("limit_reached", "max_turns")
    assert (run.turns, len(sdk.requests), len(server.calls)) == (4, 4, 4)
    assert run.final_answer is None


def test_calls_beyond_the_limit_are_recorded_and_not_made():
    server = FakeServer()
    reply = openai_response(*[("call", ("save_note", {"n": n})) for n in range(5)])
    run, _ = run_openai([reply], server, limits=Limits(max_calls=3))
    assert (run.status, run.stop_reason) == ("limit_reached", "max_calls")
    assert len(server.calls) == 3
    assert [call.duration is None for call in run.calls] == [False] * 3 + [True] * 2
    assert run.calls[3].error == "not made: the limit of 3 calls was reached"


def test_a_run_may_answer_after_exactly_as_many_calls_as_allowed():
    reply = openai_response(("call", ("save_note", {})))
    run, _ = run_openai([reply, openai_response(("text", "Ok"))], limits=Limits(max_calls=1))
    assert run.status == "completed"


def test_a_paused_turn_is_sent_back_and_goes_on():
    replies = [
        anthropic_message(("text", "Thinking."), stop="pause_turn"),
        anthropic_message(("text", "Done.")),
    ]
    run, sdk = run_anthropic(replies)
    assert (run.final_answer, run.turns) == ("Done.", 2)
    assert [message["role"] for message in sdk.requests[1]["messages"]] == ["user", "assistant"]


def test_a_failed_response_is_an_error_whose_cost_is_not_known():
    reply = openai_response(status="failed", error=("server_error", "oops"), usage=None)
    run, _ = run_openai([reply], budget=Budget(max_usd=1))
    assert run.status == "error"
    assert "server_error: oops" in str(run.error)
    assert run.cost_usd is None
    assert run.counted_usd > 0  # the worst case is counted, for the call may be billed


# --- usage and cost -------------------------------------------------------------------------------


def test_openai_cached_and_written_tokens_have_prices_of_their_own():
    price = Price(1.0, 10.0, "test", cache_read_per_million=0.1, cache_write_per_million=1.25)
    reply = openai_response(("text", "Ok"), usage=(1000, 100), cached=600, written=300)
    run, _ = run_openai([reply], price=price)
    # 100 x $1 + 600 x $0.10 + 300 x $1.25 + 100 x $10 = 100 + 60 + 375 + 1000 = 1535 per million.
    assert run.cost_usd == pytest.approx(0.001535, abs=1e-15)
    assert (run.usage.input_tokens, run.usage.cache_read_tokens) == (1000, 600)


def test_anthropic_input_tokens_include_the_cached_ones_it_lists_apart():
    price = Price(1.0, 10.0, "test", 0.1, 1.25, 2.0)
    reply = anthropic_message(("text", "Ok"), usage=(100, 10), read=600, written=300, hour=200)
    run, _ = run_anthropic([reply], price=price)
    assert run.usage.input_tokens == 1000
    # 100 x 1 + 600 x 0.1 + 100 x 1.25 + 200 x 2 + 10 x 10 = 100 + 60 + 125 + 400 + 100 = 785.
    assert run.cost_usd == pytest.approx(0.000785, abs=1e-15)


def test_long_requests_cost_the_price_of_long_requests():
    price = Price(1.0, 10.0, "test", above_input_tokens=1000, above=Price(2.0, 15.0, "long"))
    at = openai_response(("text", "Ok"), usage=(1000, 100))
    above = openai_response(("text", "Ok"), usage=(1001, 100))
    assert run_openai([at], price=price)[0].cost_usd == pytest.approx(0.002, abs=1e-15)
    # 1001 x 2 + 100 x 15 = 3502 per million.
    assert run_openai([above], price=price)[0].cost_usd == pytest.approx(0.003502, abs=1e-15)


def test_a_model_without_a_known_price_is_refused_before_any_call():
    sdk = FakeSDK([openai_response(("text", "Ok"))])
    provider = OpenAIResponsesProvider(sdk, "my-own-model")
    with pytest.raises(SettingsError, match="price of 'my-own-model' is not known"):
        run_agent(FakeServer(), provider, "Hi")
    assert sdk.requests == []
    run = run_agent(FakeServer(), provider, "Hi", budget=Budget(allow_unknown_price=True))
    assert (run.status, run.cost_usd, run.price) == ("completed", None, None)


def test_a_price_is_unknown_for_a_service_tier_with_a_price_of_its_own():
    provider = OpenAIResponsesProvider(FakeSDK([openai_response(("text", "Ok"))]), "gpt-6-luna")
    run_agent(FakeServer(), provider, "Hi", extra={"service_tier": "default"})
    with pytest.raises(SettingsError, match="not known"):
        run_agent(FakeServer(), provider, "Hi", extra={"service_tier": "priority"})


def test_a_call_without_reported_usage_makes_the_cost_unknown_and_counts_its_worst_case():
    budget = Budget(max_usd=1)
    run, _ = run_openai([openai_response(("text", "Ok"), usage=None)], budget=budget)
    assert (run.status, run.cost_usd) == ("completed", None)
    # 1024 output tokens at $10 per million are 0.01024; the input comes on top.
    assert run.counted_usd > 0.01024
    assert budget.spent_usd == run.counted_usd


@pytest.mark.parametrize("tokens", [-5_000_000, 1.5, None, True])
def test_a_usage_that_can_be_none_is_unknown_and_gives_no_money_back(tokens):
    budget = Budget(max_usd=1)
    message = anthropic_message(("text", "Ok"))
    message.usage.output_tokens = tokens
    run, _ = run_anthropic([message], budget=budget)
    assert (run.status, run.final_answer, run.cost_usd) == ("completed", "Ok", None)
    assert budget.spent_usd == run.counted_usd > 0.01024


def test_a_provider_that_fails_in_its_own_way_is_an_error_of_the_run_without_keys():
    class Own(ScriptedProvider):
        def send(self, request, timeout):
            raise KeyError(KEY)

    run = run_agent(FakeServer(), Own([]), "Hi", price=PRICE, budget=Budget(max_usd=1))
    assert (run.status, run.stop_reason, run.cost_usd) == ("error", "provider", None)
    assert "KeyError" in str(run.error)
    assert KEY not in str(run.error)
    assert run.counted_usd > 0.01024  # it may have been billed


# --- budget ---------------------------------------------------------------------------------------


def test_a_call_that_may_cost_more_than_is_left_is_not_made():
    run, sdk = run_openai([openai_response(("text", "Ok"))], budget=Budget(max_usd=0.01))
    # 1024 output tokens at $10 per million alone come to 0.01024.
    assert (run.status, run.stop_reason) == ("budget_stopped", "budget")
    assert sdk.requests == []
    assert run.cost_usd == 0.0


def test_a_budget_of_exactly_the_worst_case_allows_the_call():
    reply = openai_response(("text", "Ok"))
    _, sdk = run_openai([reply])
    from toolscore_pipeline.agent.loop import request_tokens

    # bytes of the request x $1 and 1024 x $10, per million.
    worst = (request_tokens(sdk.requests[0]) + 10240) / 1_000_000
    assert run_openai([reply], budget=Budget(max_usd=worst))[0].status == "completed"
    just_less = Budget(max_usd=worst - 0.000001)
    assert run_openai([reply], budget=just_less)[0].status == "budget_stopped"


def test_a_long_tool_result_is_counted_before_it_is_sent():
    server = FakeServer(lambda tool, args: ToolResult("x" * 3_000_000))
    reply = openai_response(("call", ("save_note", {})))
    run, sdk = run_openai([reply], server, budget=Budget(max_usd=1))
    # 3,000,000 bytes may be as many tokens: $3.
    assert (run.status, len(sdk.requests)) == ("budget_stopped", 1)
    assert run.cost_usd == pytest.approx(0.0003, abs=1e-15)


# --- provider errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("sdk", [openai, anthropic], ids=["openai", "anthropic"])
def test_rate_limits_are_waited_out_as_long_as_the_provider_asks(sdk):
    waits: list[float] = []
    limit = sdk_error(sdk, "RateLimitError", 429, retry_after="7")
    if sdk is openai:
        run, fake = run_openai([limit, limit, openai_response(("text", "Ok"))], sleep=waits.append)
    else:
        replies = [limit, limit, anthropic_message(("text", "Ok"))]
        run, fake = run_anthropic(replies, sleep=waits.append)
    assert (run.status, run.retries, len(fake.requests)) == ("completed", 2, 3)
    assert waits == [7.0, 7.0]
    assert run.cost_usd == pytest.approx(0.0003, abs=1e-15)  # a refused call costs nothing


def test_waits_grow_when_the_provider_does_not_say_how_long():
    waits: list[float] = []
    limit = sdk_error(openai, "RateLimitError", 429)
    run, _ = run_openai([limit], sleep=waits.append, limits=Limits(max_retries=4))
    assert run.status == "error"
    assert "RateLimitError" in str(run.error)
    assert len(waits) == 4
    for wait, base in zip(waits, (1, 2, 4, 8), strict=True):
        assert 0.75 * base <= wait <= 1.25 * base


@pytest.mark.parametrize(
    ("kind", "status"),
    [("InternalServerError", 500), ("BadRequestError", 400), ("AuthenticationError", 401)],
)
def test_other_provider_errors_are_not_tried_again(kind, status):
    failure = sdk_error(openai, kind, status, {"code": "some_code", "message": "told you"})
    run, fake = run_openai([failure])
    assert (run.status, len(fake.requests), run.retries) == ("error", 1, 0)
    assert f"HTTP {status}" in str(run.error)
    assert ("told you" in str(run.error)) == (status != 401)
    assert run.cost_usd == 0.0


def test_a_used_up_quota_is_no_rate_limit():
    failure = sdk_error(openai, "RateLimitError", 429, {"code": "insufficient_quota"})
    run, fake = run_openai([failure])
    assert (run.status, len(fake.requests)) == ("error", 1)


def test_a_call_that_timed_out_counts_its_worst_case_for_it_may_be_billed():
    import httpx2

    failure = openai.APITimeoutError(httpx2.Request("POST", "https://example.test"))
    budget = Budget(max_usd=1)
    run, _ = run_openai([failure], budget=budget)
    assert (run.status, run.cost_usd) == ("error", None)
    assert budget.spent_usd > 0.01024


# --- guards and servers ---------------------------------------------------------------------------


def test_a_denied_call_never_reaches_the_server_and_the_model_is_told_why():
    server = FakeServer()
    replies = [openai_response(("call", ("delete_note", {"title": "old"})))]
    replies.append(openai_response(("text", "It was denied.")))
    run, sdk = run_openai(
        replies,
        server,
        guard=lambda call: deny("read-only study") if call.tool.startswith("delete") else None,
    )
    assert server.calls == []
    told = sdk.requests[1]["input"][-1]["output"]
    assert told == "denied by the harness guard: read-only study"
    call = run.calls[0]
    assert (call.denied, call.deny_reason, call.is_error) == (True, "read-only study", True)
    assert run.guard_denials == [
        {
            "id": "call_0",
            "tool": "delete_note",
            "args": {"title": "old"},
            "reason": "read-only study",
        }
    ]


def test_rules_deny_what_they_name_and_allow_the_rest():
    guard = rules_guard(
        [{"tool": "save_note", "args": {"title": {"$regex": "^secret"}}, "reason": "no secrets"}]
    )
    server = FakeServer()
    calls = [("call", ("save_note", {"title": title})) for title in ("secret plan", "plan")]
    run, _ = run_openai(
        [openai_response(*calls), openai_response(("text", "Ok"))], server, guard=guard
    )
    assert server.calls == [("save_note", {"title": "plan"})]
    assert [call.deny_reason for call in run.calls] == ["no secrets", None]


@pytest.mark.parametrize("answer", [True, "no", 0])
def test_a_guard_that_answers_with_no_decision_stops_the_run_before_the_call(answer):
    server = FakeServer()
    run, _ = run_openai(
        [openai_response(("call", ("save_note", {})))], server, guard=lambda call: answer
    )
    assert (run.status, server.calls) == ("error", [])
    assert "expected allow(), deny(reason) or None" in str(run.error)


def test_a_guard_that_fails_stops_the_run_before_the_call():
    server = FakeServer()
    run, _ = run_openai(
        [openai_response(("call", ("save_note", {})))], server, guard=lambda call: 1 / 0
    )
    assert (run.status, server.calls) == ("error", [])
    assert run.error == "the guard failed on save_note: ZeroDivisionError"


def test_the_guard_sees_every_call_with_its_place():
    seen = []

    def guard(call):
        seen.append((call.index, call.tool, call.task_id, call.arm_id))
        return allow()

    calls: list[Part] = [("call", ("save_note", {})), ("call", ("delete_note", {}))]
    replies = [openai_response(*calls), openai_response(("text", "Ok"))]
    run_openai(replies, guard=guard, task_id="t", arm_id="a")
    assert seen == [(0, "save_note", "t", "a"), (1, "delete_note", "t", "a")]


def test_a_server_that_goes_away_is_an_error_of_the_run_and_of_the_call():
    run, _ = run_openai([openai_response(("call", ("save_note", {})))], DeadServer())
    assert run.status == "error"
    assert "went away" in str(run.error)
    assert "went away" in str(run.calls[0].error)
    assert run.cost_usd == pytest.approx(0.0003, abs=1e-15)


def test_the_model_is_offered_only_the_allowed_tools():
    _, sdk = run_openai([openai_response(("text", "Ok"))], allow_tools=["save_*"])
    assert [tool["name"] for tool in sdk.requests[0]["tools"]] == ["save_note"]


def test_names_that_providers_do_not_take_are_changed_and_stay_apart():
    long = "x" * 70
    tools = [Tool(name, "", {}) for name in ("a.b", "a/b", "a_b", long, long + "y")]
    names = provider_names(tools)
    assert [names[tool.name] for tool in tools[:3]] == ["a_b", "a_b_2", "a_b_3"]
    assert len(set(names.values())) == 5
    assert max(map(len, names.values())) == 64


def test_content_that_is_no_text_is_named_to_the_model_and_kept_in_the_record():
    blocks = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    server = FakeServer(lambda tool, args: ToolResult([*blocks, {"type": "text", "text": "a dot"}]))
    replies = [openai_response(("call", ("save_note", {}))), openai_response(("text", "Ok"))]
    run, sdk = run_openai(replies, server)
    assert sdk.requests[1]["input"][-1]["output"] == "[image image/png]\na dot"
    assert run.calls[0].result[0] == blocks[0]


def test_a_script_is_replayed_step_by_step_and_costs_nothing():
    server = FakeServer()
    steps: list[dict[str, Any]] = [
        {"calls": [{"tool": "save_note", "args": {"title": "a"}}]},
        {"text": "Saved."},
    ]
    run = run_agent(server, ScriptedProvider(steps), "Hi", budget=Budget(max_usd=0))
    assert (run.status, run.final_answer, run.cost_usd) == ("completed", "Saved.", 0.0)
    assert server.calls == [("save_note", {"title": "a"})]
    assert run.calls[0].id == "call-1-1"
