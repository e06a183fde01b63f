"""What is spent never exceeds the budget, whatever is answered."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent_helpers import FakeServer, anthropic_message, openai_response, sdk_error
from toolscore_pipeline.agent import (
    AnthropicMessagesProvider,
    Budget,
    Limits,
    OpenAIResponsesProvider,
    Price,
    Usage,
    find_price,
    run_agent,
)
from toolscore_pipeline.agent.budget import FileLedger
from toolscore_pipeline.agent.mcp_client import ToolResult
from toolscore_pipeline.errors import InputError


class Model:
    """A model that answers as it is told and reports what a tokenizer could report.

    A token is at least a byte, so a request of n bytes is ``density`` x n tokens, density from 0 to
    1; an answer is at most the output limit, and no fewer tokens than its own share of the next
    request.
    """

    def __init__(self, api, replies, density, hidden, max_output):
        self.api, self.replies = api, list(replies)
        self.density, self.hidden, self.max_output = density, hidden, max_output
        self.requests = 0
        self.billed: list[Usage] = []
        self.responses = self.messages = self

    def create(self, **request):
        import openai

        reply = self.replies[self.requests % len(self.replies)]
        self.requests += 1
        if reply["is_limited"]:
            raise sdk_error(openai, "RateLimitError", 429)
        size = len(json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode())
        tokens = math.floor(size * self.density) + self.hidden
        parts = [("text", "x" * reply["text"])] if reply["text"] else []
        parts += [("call", ("save_note", {"n": n})) for n in range(reply["calls"])]
        output = min(self.max_output, reply["output"])
        if self.api == "openai":
            cached = min(tokens, reply["cached"])
            written = (tokens - cached) // 2
            self.billed.append(Usage(tokens, output, cached, written))
            return openai_response(*parts, usage=(tokens, output), cached=cached, written=written)
        self.billed.append(Usage(tokens, output))
        return anthropic_message(*parts, usage=(tokens, output))


replies = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.integers(0, 200),
            "calls": st.integers(0, 3),
            "output": st.integers(1, 2_000),
            "cached": st.integers(0, 500),
            "is_limited": st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150)
@given(
    api=st.sampled_from(["openai", "anthropic"]),
    replies=replies,
    density=st.floats(0, 1),
    hidden=st.integers(0, 1000),
    max_output=st.integers(1, 2_000),
    cents=st.integers(0, 40),
    results=st.lists(st.integers(0, 3_000), min_size=1, max_size=4),
    runs=st.integers(1, 3),
)
def test_for_any_replies_the_spent_sum_stays_within_the_budget(
    api, replies, density, hidden, max_output, cents, results, runs
):
    price = Price(
        3.0, 15.0, "test", 0.3, 3.75, above_input_tokens=4_000, above=Price(6, 22, "", 0.6, 7.5)
    )
    budget = Budget(max_usd=cents / 100)
    model = Model(api, replies, density, hidden, max_output)
    provider = (OpenAIResponsesProvider if api == "openai" else AnthropicMessagesProvider)(
        model, "m"
    )
    sizes = iter(results * 1000)
    server = FakeServer(lambda tool, args: ToolResult("r" * next(sizes)))
    total = Decimal(0)
    for _ in range(runs):
        run = run_agent(
            server,
            provider,
            "Do it.",
            budget=budget,
            price=price,
            limits=Limits(max_turns=8, max_retries=2),
            max_output_tokens=max_output,
            sleep=lambda seconds: None,
        )
        total += Decimal(repr(run.counted_usd))
        bill = sum(map(price.cost, model.billed), Decimal(0))
        assert bill <= Decimal(repr(budget.max_usd))
        assert budget.spent_usd == float(bill)
    assert total == pytest.approx(Decimal(repr(budget.spent_usd)), abs=Decimal("1e-12"))


def test_many_runs_at_once_share_one_budget():
    from concurrent.futures import ThreadPoolExecutor

    budget = Budget(max_usd=0.10)
    price = Price(1.0, 10.0, "test")

    def one(_):
        model = Model("openai", [REPLY], 0.3, 0, 1024)
        provider = OpenAIResponsesProvider(model, "m")
        return run_agent(FakeServer(), provider, "Do it.", budget=budget, price=price)

    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(one, range(40)))
    assert {run.status for run in runs} <= {"budget_stopped", "limit_reached"}
    assert any(run.status == "budget_stopped" for run in runs)
    # Each call costs about a cent, so the budget is nearly used, and never exceeded.
    assert 0.08 < budget.spent_usd <= 0.10


REPLY = {"text": 10, "calls": 1, "output": 1000, "cached": 0, "is_limited": False}


def test_a_reservation_that_was_never_settled_counts_in_full(tmp_path):
    ledger = FileLedger(tmp_path / "runs.jsonl.ledger")
    ledger.reserve("a", Decimal("0.5"))
    ledger.settle("a", Decimal("0.1"))
    ledger.reserve("a", Decimal("0.25"))  # killed in this call
    ledger.reserve("b", Decimal("0.5"))
    ledger.settle("b", Decimal("0.2"))
    assert ledger.spent_without(set()) == Decimal("0.55")  # 0.1 + 0.25 + 0.2
    assert ledger.spent_without({"b"}) == Decimal("0.35")  # b's row tells of b


def test_a_ledger_line_that_was_cut_off_reserves_nothing_and_the_next_stands_alone(tmp_path):
    ledger = FileLedger(tmp_path / "ledger")
    ledger.reserve("a", Decimal("0.5"))
    with ledger.path.open("ab") as file:
        file.write(b'{"reserved_usd": "0.7", "run')
    assert ledger.spent_without(set()) == Decimal("0.5")
    ledger.mend()
    ledger.reserve("b", Decimal("0.25"))
    assert ledger.spent_without(set()) == Decimal("0.75")


def test_a_ledger_that_holds_something_else_is_refused_with_its_line(tmp_path):
    path = tmp_path / "ledger"
    path.write_text('{"run_id": "a", "reserved_usd": "0.5"}\n{"hello": 1}\n')
    with pytest.raises(InputError, match=r"ledger:2: expected an entry"):
        FileLedger(path).spent_without(set())


def test_a_budget_refuses_what_does_not_fit_and_keeps_what_it_had():
    budget = Budget(max_usd=1.0)
    assert budget.reserve(Decimal("0.6"))
    assert not budget.reserve(Decimal("0.5"))
    budget.settle(Decimal("0.6"), Decimal("0.1"))
    assert budget.reserve(Decimal("0.9"))  # 0.1 + 0.9 is the cap exactly
    assert not budget.reserve(Decimal("0.0001"))


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf")])
def test_a_cap_that_is_no_amount_is_refused(amount):
    with pytest.raises(ValueError, match="max_usd"):
        Budget(max_usd=amount)


def test_list_prices_are_found_by_name_and_by_dated_name_only():
    price = find_price("anthropic", "claude-haiku-5-5")
    assert price is not None
    assert (price.input_per_million, price.output_per_million) == (0.1, 0.5)
    assert find_price("anthropic", "claude-haiku-5-5-20260901") == price
    assert find_price("openai", "gpt-6-luna-2026-09-01") == find_price("openai", "gpt-6-luna")
    assert find_price("anthropic", "claude-haiku-5-5-turbo") is None
    assert find_price("openai", "claude-haiku-5-5") is None
    assert "list price of 2026-" in price.source


def test_the_worst_case_covers_every_usage_of_as_many_tokens():
    price = Price(1.0, 10.0, "t", 0.1, 1.25, 2.0)
    # 1000 tokens all written for an hour at $2, 100 out at $10: 3000 per million.
    assert price.worst_cost(1000, 100, may_cache=True) == Decimal("0.003")
    assert price.worst_cost(1000, 100, may_cache=False) == Decimal("0.002")
    for usage in (Usage(1000, 100), Usage(1000, 100, cache_write_1h_tokens=1000)):
        assert price.cost(usage) <= price.worst_cost(1000, 100, may_cache=True)
