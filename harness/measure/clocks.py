"""What a card's clocks, temperature and brakes are at a moment, from NVML (nvidia-ml-py); all unknown without it.

Reasons: NVML API Reference, nvmlClocksEventReasons. The names differ between releases, the bits do not.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

_POWER_CAP = 0x4
_BRAKES = {
    0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "thermal slowdown", 0x40: "hardware thermal slowdown",
    0x80: "power brake",
}  # fmt: skip
_SM, _MEMORY, _TEMPERATURE_OF_GPU = 1, 2, 0  # nvmlClockType_t, nvmlTemperatureSensors_t


@dataclass(frozen=True)
class Clocks:
    """MHz and degrees Celsius, 0 where unknown; `throttled` names what holds the clocks back."""

    sm_mhz: int = 0
    memory_mhz: int = 0
    temperature: int = 0
    throttled: tuple[str, ...] = ()
    power_capped: bool = False


class Watch:
    """Reads one card's state. Without NVML every reading is `Clocks()`."""

    def __init__(self, pci_bus_id: str, library: Any = None):
        """pci_bus_id: "0000:3B:00.0"; library: the module pynvml, or one like it."""
        self._nvml: Any = None
        with contextlib.suppress(Exception):  # whatever is missing, measuring goes on without it
            nvml = library or importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
            self._nvml = nvml

    @property
    def works(self) -> bool:
        """Whether NVML and the card were found."""
        return self._nvml is not None

    def read(self) -> Clocks:
        """The state now; takes some 10 us. What the card does not tell stays unknown."""
        if not self.works:
            return Clocks()
        nvml, handle = self._nvml, self._handle
        reasons = _told(_reasons, nvml, handle)
        return Clocks(
            _told(nvml.nvmlDeviceGetClockInfo, handle, _SM),
            _told(nvml.nvmlDeviceGetClockInfo, handle, _MEMORY),
            _told(nvml.nvmlDeviceGetTemperature, handle, _TEMPERATURE_OF_GPU),
            tuple(words for bit, words in _BRAKES.items() if reasons & bit),
            bool(reasons & _POWER_CAP),
        )


def _reasons(nvml: Any, handle: Any) -> int:
    query = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return int((query or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))


def _told(query: Any, *operands: Any) -> int:
    try:
        return int(query(*operands))
    except Exception:  # NVML's errors have classes that have no name without it
        return 0
