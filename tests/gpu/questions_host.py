"""Questions about the machine around the card: confinement, NVML, attributes."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.questions_kit import Card, quartiles

_ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 16, "L2_CACHE_SIZE": 38, "PAGEABLE_MEMORY_ACCESS": 88, "CONCURRENT_MANAGED_ACCESS": 89,
    "COMPUTE_PREEMPTION_SUPPORTED": 90, "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 91, "COOPERATIVE_LAUNCH": 95,
    "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES": 100, "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST": 101,
    "MAX_PERSISTING_L2_CACHE_SIZE": 108, "MAX_ACCESS_POLICY_WINDOW_SIZE": 109, "KERNEL_EXEC_TIMEOUT": 17,
    "CLOCK_RATE": 13, "MEMORY_CLOCK_RATE": 36, "GLOBAL_MEMORY_BUS_WIDTH": 37,
}  # fmt: skip
_LANDLOCK_CREATE, _PR_NO_NEW_PRIVS, _PR_SECCOMP, _SECCOMP_FILTER = 444, 38, 22, 2
_UNAME_X86 = 63


def attributes() -> dict[str, Any]:
    card = Card()
    answer: dict[str, Any] = {"name": card.device.name(), "cc": card.arch}
    answer |= {name: card.attribute(number) for name, number in _ATTRIBUTES.items()}
    free, total = card.cuda.mem_get_info()
    answer |= {"free_mib": free >> 20, "total_mib": total >> 20, "driver": card.cuda.get_driver_version()}
    card.leave()
    answer["addressing_mode"] = _lines(["nvidia-smi", "-q"], "Addressing Mode")
    return answer


def confinement() -> dict[str, Any]:
    """What of bubblewrap, user namespaces, Landlock and seccomp works for this user."""
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    bwrap = shutil.which("bwrap")
    small = ["--unshare-all", "--ro-bind", "/", "/", "true"]
    return {
        "kernel": " ".join(os.uname()[2:4]),
        "uid": os.getuid(),
        "capabilities": status.get("CapEff", "?").strip(),
        "seccomp_mode": status.get("Seccomp", "?").strip(),
        "unshare_user": _tried(["unshare", "-U", "true"]),
        "unshare_user_mount_pid_net": _tried(["unshare", "-Urmpfn", "true"]),
        "bwrap": _tried([bwrap, *small]) if bwrap else "not installed",
        "landlock_abi": abi if abi >= 0 else errno.errorcode.get(ctypes.get_errno(), "?"),
        "seccomp_filter": _seccomp(libc),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1 or none",
        "cgroup_writable": os.access("/sys/fs/cgroup", os.W_OK),
    }


def nvml() -> dict[str, Any]:
    """Clocks and why they are held back, and what a query costs."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    reasons = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or (
        pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
    )
    queries: dict[str, Callable[[], Any]] = {
        "sm_clock": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_clock": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "max_sm_clock": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "reasons": lambda: hex(reasons(handle)),
        "supported_reasons": lambda: hex(pynvml.nvmlDeviceGetSupportedClocksThrottleReasons(handle)),
        "temperature": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "power_mw": lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
        "power_limit_mw": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        "energy_mj": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle),
        "performance_state": lambda: pynvml.nvmlDeviceGetPerformanceState(handle),
        "driver": pynvml.nvmlSystemGetDriverVersion,
        "processes": lambda: [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        "persistence": lambda: pynvml.nvmlDeviceGetPersistenceMode(handle),
        "ecc_errors": lambda: pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        ),
    }
    return {name: _timed(query) for name, query in queries.items()}


def smi_performance() -> dict[str, Any]:
    done = subprocess.run(["nvidia-smi", "-q", "-d", "PERFORMANCE"], capture_output=True, text=True, timeout=15)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if ":" in line]
    return {"exit": done.returncode, "lines": lines[3:]}


def _timed(query: Callable[[], Any]) -> str:
    times = []
    try:
        for _ in range(20):
            begun = time.perf_counter()
            value = query()
            times.append(time.perf_counter() - begun)
    except Exception as error:  # whatever NVML refuses is the answer
        return f"refused: {error}"
    figures = quartiles(times, 1e6)
    return f"{value}   ({figures['median']} us, at most {figures['max']})"


def _tried(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "works" if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[-200:]}"


def _lines(command: list[str], word: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    return [" ".join(line.split()) for line in done.stdout.splitlines() if word in line]


def _seccomp(libc: Any) -> str:
    """A child forbids itself uname() by a filter, and calls it."""
    load_number, allow, refuse = (0x20, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)
    program = b"".join(struct.pack("<HBBI", *step) for step in (load_number, (0x15, 0, 1, _UNAME_X86), refuse, allow))
    pid = os.fork()
    if not pid:
        filters = ctypes.create_string_buffer(program)
        argument = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 4, ctypes.addressof(filters)))
        libc.prctl(_PR_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(_PR_SECCOMP, _SECCOMP_FILTER, argument, 0, 0):
            os._exit(100 + min(ctypes.get_errno(), 100))
        try:
            os.uname()
        except PermissionError:
            os._exit(0)
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {0: "works", 1: "installed, without effect"}.get(status, f"errno {status - 100}")


QUESTIONS = {"attributes": attributes, "confinement": confinement, "nvml": nvml, "smi_performance": smi_performance}
