"""A session for a person: progress while files are judged, then the table and what each surprise is about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.grading import files, wording
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status, first_error
from harness.grading.session import Session, Watch
from harness.report.console import Console
from harness.report.excerpt import excerpt, printable
from harness.report.terminal import style_of
from harness.verdict import Verdict

WIDTH = 160  # columns where the output is no terminal and says nothing of its width
_STYLES = {
    Status.OK: "green",
    Status.SURPRISE: "bold red",
    Status.JUDGE_ERROR: "bold magenta",
    Status.SKIPPED: "yellow",
    Status.NOT_RUN: "yellow",
}
_WORTH_TELLING = (Status.SURPRISE, Status.JUDGE_ERROR)
_MAX_LOG = 6  # lines of the compiler's that the table's reader sees


@contextlib.contextmanager
def watching(console: Console, session: Session) -> Iterator[Watch]:
    """What shows how far the session is: bars on a terminal, elsewhere a line for each file that is done."""
    if not console.is_terminal:
        yield _Lines(console, session).tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress, session).tell


class _Lines:
    """For logs: plain lines, in the order in which files are done."""

    def __init__(self, console: Console, session: Session):
        self._console = console
        self._session = session
        self._done = 0

    def tell(self, entry: Entry, message: str | Graded) -> None:
        """Print what is done; steps are not worth a line."""
        if isinstance(message, str):
            return
        self._done += 1
        number = f"[{self._done}/{len(self._session.entries)}]"
        words = (wording.result(entry, message), wording.verdict(message), f"{message.seconds:.1f} s")
        said = "  ".join(word for word in words if word)
        self._console.print(Text(f"{number} {wording.name(entry.name)}  {said}"), soft_wrap=True)


class _Bars:
    """For terminals: one bar for all files, and a line for each that is being judged."""

    def __init__(self, progress: Progress, session: Session):
        self._progress = progress
        self._all = progress.add_task("grading", total=len(session.entries))
        self._running: dict[str, TaskID] = {}

    def tell(self, entry: Entry, message: str | Graded) -> None:
        """Show the step of a file, or take a file away that is done."""
        if isinstance(message, str):
            words = f"  {wording.name(entry.name)}  {message}".replace("[", r"\[")
            if entry.name not in self._running:
                self._running[entry.name] = self._progress.add_task(words, total=None)
            self._progress.update(self._running[entry.name], description=words)
            return
        if entry.name in self._running:
            self._progress.remove_task(self._running.pop(entry.name))
        self._progress.advance(self._all)


def print_session(console: Console, session: Session) -> None:
    """The table, then each surprise with its first finding, then the sums."""
    console.print(_table(session))
    for entry, graded in session.rows:
        if graded.status in _WORTH_TELLING:
            for line in _surprise(entry, graded, console.width):
                console.print(line, soft_wrap=True)
    for entry, graded in session.rows:
        if graded.status is Status.SKIPPED:
            said = f"{wording.name(entry.name)}: {wording.line(graded.reasons[0])}"
            console.print(Text(f"\nskipped {said}"), soft_wrap=True)
    console.print(Text(f"\n{_sums(session)}", style="bold"), soft_wrap=True)


def _sums(session: Session) -> str:
    options = session.settings.options
    devices = {graded.device for _, graded in session.rows if graded.device}
    where = ", ".join(sorted(devices)) or options.device
    said = wording.verdicts(session) if session.settings.report_only else wording.counts(session)
    return f"{said}  on {printable(where)}  in {session.seconds:.1f} s  seed {options.seed}"


def _table(session: Session) -> Table:
    """Columns that say nothing are left out: scores that nobody has, declarations that nobody made or is held to."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    rows = session.rows
    held, scored = wording.declares(session), any(graded.score is not None for _, graded in rows)
    for name, shown in (("file", True), ("problem", True), ("dtype", True), ("declared", held), ("got", True)):
        if shown:
            table.add_column(name, overflow="fold")
    if scored:
        table.add_column("score", justify="right")
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for entry, graded in rows:
        table.add_row(*_cells(entry, graded, held, scored))
    return table


def _cells(entry: Entry, graded: Graded, held: bool, scored: bool) -> Iterator[Text]:
    yield Text(wording.name(entry.name))
    yield Text(entry.problem.id)
    yield Text(wording.track(graded))
    if held:
        yield Text(wording.declared(entry.declared))
    yield Text(wording.verdict(graded), style=style_of(graded.verdict) if graded.verdict else "")
    if scored:
        yield Text(wording.score(graded))
    yield Text(f"{graded.seconds:.1f}" if graded.seconds else wording.NOTHING)
    yield Text(wording.result(entry, graded), style=_STYLES.get(graded.status, ""))


def _surprise(entry: Entry, graded: Graded, columns: int) -> Iterable[Text]:
    head = Text("\n")
    head.append(wording.result(entry, graded), style=_STYLES[graded.status])
    head.append(f"  {wording.name(entry.name)}: {wording.line('; '.join(graded.reasons))}")
    if entry.declared.where:
        head.append(f"  (declared in {wording.name(entry.declared.where)})")
    yield head
    said, line = _first(entry, graded) if not entry.fault else ("", 0)  # the reason was that
    yield from (Text(f"  {row}") for row in wording.plain(said).split("\n") if row.strip())
    yield from (Text(f"  {row}") for row in _code(entry, line, columns))


def _first(entry: Entry, graded: Graded) -> tuple[str, int]:
    """What tells most about a verdict: the first finding; of what does not compile all that the judge explains, then
    the compiler's first words. And its line."""
    if graded.verdict is Verdict.COMPILE_ERROR:
        raw = len(wording.compiler_lines(graded))
        said = wording.explanation(entry, graded)
        lines = [group.finding.line for group in graded.findings if group.finding.line] or [first_error(graded.log)]
        return "\n".join(said[: len(said) - max(0, raw - _MAX_LOG)]), lines[0]
    if graded.findings:
        return wording.finding(entry, graded.findings[0]), graded.findings[0].finding.line
    return "", 0


def _code(entry: Entry, line: int, columns: int) -> list[str]:
    """The line of the file that is meant, underlined."""
    if not line or entry.fault:
        return []
    return excerpt(files.text(entry.source), line, around=0, columns=columns - 2)


