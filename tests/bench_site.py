"""How quick the site is on this machine, as JSON: `python -m tests.bench_site`.

    ready_s            from the command to the line that says where the site is
    workers_s          from there until something can be judged
    first_page_ms      Chromium's first load of the problem list, from the request to the load event; `again` the same page
    first_page_kb      what that load fetched, pages, styles and scripts
    problem_ms, _kb    a problem's page, without the editor's bundle
    finding_s          from POST to the first event with a finding, of sample runs that nothing was compiled for before
    verdict_s          from POST to the end of the same runs
    memory_mb          of all processes of the site at rest, their shares of shared pages (PSS)
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Page

from tests.browser import chromium
from tests.test_serve import Process, started

ROOT = Path(__file__).parent.parent
_KERNELS = {  # teaching kernels with a mistake each
    "split_k_merge": ROOT / "tests/submissions/split_k_merge/missing_sync.cu",
    "paged_decode": ROOT / "problems/paged_decode/starter.cu",
    "flash_attention": ROOT / "problems/flash_attention/starter.cu",
}
_TIMING = """() => {
  const page = performance.getEntriesByType("navigation")[0];
  const all = [page, ...performance.getEntriesByType("resource")];
  return [page.loadEventEnd, all.reduce((sum, each) => sum + each.encodedBodySize, 0) / 1024];
}"""


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        with started(Path(folder), cache=Path(folder) / "cache") as process:
            figures: dict[str, Any] = {"ready_s": _since(begun)}
            begun = time.monotonic()
            _browsed(process.url, figures)
            _wait_for_workers(process.url)
            figures["workers_s"] = _since(begun)
            time.sleep(3)  # the judging processes import what they need
            figures["memory_mb"] = round(sum(map(_memory, process.left())) / 1024)
            figures |= _judged(process)
    print(json.dumps(figures, indent=2))


def _browsed(url: str, figures: dict[str, Any]) -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.goto("about:blank")
        figures["first_page_ms"], figures["first_page_kb"] = _load(page, url)
        figures["first_page_again_ms"] = statistics.median(_load(page, url)[0] for _ in range(5))
        figures["problem_ms"], figures["problem_kb"] = _load(page, f"{url}/problems/paged_decode")
        figures["problem_again_ms"] = statistics.median(_load(page, f"{url}/problems/paged_decode")[0] for _ in range(5))


def _load(page: Page, url: str) -> tuple[int, int]:
    page.goto(url, wait_until="load")
    page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    milliseconds, kilobytes = page.evaluate(_TIMING)
    return round(milliseconds), round(kilobytes)


def _wait_for_workers(url: str) -> None:
    while httpx2.get(f"{url}/api/health").json().get("trouble"):
        time.sleep(0.1)


def _judged(process: Process) -> dict[str, Any]:
    """The first, of each problem: the emulator's code for its kernels is not in the cache of the machine."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for problem, file in _KERNELS.items():
        begun = time.monotonic()
        body = {"problem": problem, "kind": "run", "source": f"// {time.time()}\n{file.read_text()}", "name": file.name}
        sent = httpx2.post(f"{process.url}/api/submissions", json=body, headers={"X-Judge-Client": "bench"}).json()
        with httpx2.stream("GET", process.url + sent["events_url"], timeout=60) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:") and json.loads(line[5:]).get("findings"):
                    first.setdefault(problem, _since(begun))
        last[problem] = _since(begun)
    return {"finding_s": first, "verdict_s": last}


def _memory(process: int) -> int:
    """KiB."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 2)


if __name__ == "__main__":
    main()
