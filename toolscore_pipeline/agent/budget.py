"""What a study may spend, checked before every model call, and the limits of one run.

Before a call its worst case is *reserved*; the call is made only when what was spent, what is
reserved and that worst case together stay within the budget. Afterwards the reservation is
*settled* for what the call really cost. A ledger file keeps both, so that money spent by a run
which was killed before its row was written is still counted when the study goes on.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from toolscore_pipeline.errors import InputError

LEDGER_SUFFIX = ".ledger"
"""Added to the name of a run file for the ledger beside it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one run may go on.

    Attributes:
        max_turns: model calls.
        max_calls: tool calls.
        max_retries: waits for a provider's rate limit, over the whole run.
        model_timeout: seconds one model call may take.
    """

    max_turns: int = 10
    max_calls: int = 20
    max_retries: int = 5
    model_timeout: float = 300.0

    def __post_init__(self) -> None:
        """Refuse limits that would make every run impossible."""
        if self.max_turns < 1 or self.max_calls < 0 or self.max_retries < 0:
            raise ValueError(
                "max_turns must be at least 1, max_calls and max_retries at least 0, got "
                f"{self.max_turns}, {self.max_calls} and {self.max_retries}"
            )
        if not 0 < self.model_timeout < float("inf"):
            raise ValueError(f"model_timeout must be above 0, got {self.model_timeout!r}")


class Ledger(Protocol):
    """Where reservations and settlements are written down."""

    def reserve(self, run_id: str, amount: Decimal) -> None:
        """Note that a call of at most this cost is about to be made."""

    def settle(self, run_id: str, amount: Decimal) -> None:
        """Note what the reserved call is counted as."""


class Budget:
    """A cap on spending in US dollars, shared by all the runs of a study.

    Args:
        max_usd: the cap; the spent sum may reach it and never exceeds it. None is no cap.
        allow_unknown_price: let models run whose price is not known; nothing is then counted for
            them, so the cap cannot hold for them.
        ledger: where to write reservations down; None keeps them in memory only.

    Raises:
        ValueError: when ``max_usd`` is negative or not finite.
    """

    def __init__(
        self,
        max_usd: float | None = None,
        allow_unknown_price: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        if max_usd is not None and not 0 <= max_usd < float("inf"):
            raise ValueError(f"max_usd must be 0 or more, got {max_usd!r}")
        self.max_usd = max_usd
        self.allow_unknown_price = allow_unknown_price
        self.ledger = ledger
        self._cap = None if max_usd is None else Decimal(repr(max_usd))
        self._spent = Decimal(0)
        self._reserved = Decimal(0)
        self._lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """What was counted so far, in US dollars."""
        return float(self._spent)

    def add_spent(self, amount: Decimal) -> None:
        """Count money that earlier runs spent."""
        with self._lock:
            self._spent += amount

    def _fits(self, worst: Decimal) -> bool:
        return self._cap is None or self._spent + self._reserved + worst <= self._cap

    def reserve(self, worst: Decimal, run_id: str = "") -> bool:
        """Set ``worst`` aside for a call; False, and nothing is set aside, when it does not fit."""
        with self._lock:
            if not self._fits(worst):
                return False
            if worst and self.ledger is not None:
                self.ledger.reserve(run_id, worst)
            self._reserved += worst
            return True

    def settle(self, worst: Decimal, counted: Decimal, run_id: str = "") -> None:
        """Replace a reservation of ``worst`` by what the call is counted as."""
        with self._lock:
            self._reserved -= worst
            self._spent += counted
            if worst and self.ledger is not None:
                self.ledger.settle(run_id, counted)


class FileLedger:
    """A ledger as JSON Lines beside a run file, flushed to disk before a call is made."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def reserve(self, run_id: str, amount: Decimal) -> None:
        """Write a reservation down; it is on disk when this returns."""
        self._append({"run_id": run_id, "reserved_usd": str(amount)})

    def settle(self, run_id: str, amount: Decimal) -> None:
        """Write down what the open reservation of this run came to."""
        self._append({"run_id": run_id, "settled_usd": str(amount)})

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, sort_keys=True).encode() + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def mend(self) -> None:
        """End a last line that was cut off, so that the next entry stands on a line of its own."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            with self.path.open("ab") as file:
                file.write(b"\n")

    def spent_without(self, finished_run_ids: set[str]) -> Decimal:
        """What runs that are not among the finished ones are counted as, in US dollars.

        A reservation which was never settled counts in full: its call may have been made.

        Raises:
            InputError: on a line that is no entry, unless it is a last line which was cut off.
        """
        if not self.path.exists():
            return Decimal(0)
        total, open_amounts = Decimal(0), dict[str, Decimal]()
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            try:
                entry = json.loads(line)
                run_id = entry["run_id"]
                reserved, settled = entry.get("reserved_usd"), entry.get("settled_usd")
                amount = Decimal(reserved if settled is None else settled)
            except (ValueError, KeyError, TypeError, ArithmeticError):
                # A line that was cut off reserves nothing: its call waited for the whole line.
                if _is_torn(line):
                    continue
                raise InputError(
                    "expected an entry of the spending ledger", path=self.path, line=number
                ) from None
            if run_id in finished_run_ids:
                continue
            if settled is None:
                total += open_amounts.get(run_id, Decimal(0))
                open_amounts[run_id] = amount
            else:
                total += amount
                open_amounts.pop(run_id, None)
        return total + sum(open_amounts.values(), Decimal(0))


def _is_torn(line: bytes) -> bool:
    return not line.endswith(b"}")
