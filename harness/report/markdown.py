"""Markdown on a terminal. Rich cuts off what a table's cell cannot break at a blank; Chinese has none, so fold it."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table


class _FoldingTable(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class Statement(Markdown):
    """Like Markdown, and no word of a table is lost."""

    elements = {**Markdown.elements, "table_open": _FoldingTable}  # noqa: RUF012
