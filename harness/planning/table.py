"""Every external function that solve() can call, by name."""

from __future__ import annotations

from harness.planning import device_calls, kernel_calls, memory_calls
from harness.planning.calls import Table

HANDLERS: Table = memory_calls.HANDLERS | kernel_calls.HANDLERS | device_calls.HANDLERS
