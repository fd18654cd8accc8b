"""Plain text tables for a terminal and a log."""

from __future__ import annotations

from collections.abc import Sequence


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows in columns, two blanks apart, without trailing blanks.

    Returns:
        The lines, each with its newline.
    """
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    ]
    return "".join(f"{line}\n" for line in lines)
