"""Traces of a folder, scored: the outcome, cost and latency of each."""

from __future__ import annotations

_ROUNDING = 1e-9
