"""`CsvOptions`: how a CSV file is written, where that is not the usual way. Imports nothing heavy.

The usual way: a line of column names, then a row a line; fields between commas (tabs in a .tsv
file), in double quotes where they hold a comma, a quote (written twice) or a line break; UTF-8. An
empty field is a missing value, one of two quotes with nothing between them is the empty string.
Empty lines are no rows, except where there is only one column: there they are missing values.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional


@dataclasses.dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written.

    Attributes:
      columns: names of the columns of files that do not begin with a line of names.
      delimiter: what separates fields, one character, by default a comma, and a tab for .tsv.
      skip_spaces: whether spaces at the start of a field, before its quotes, are no part of it.
        None looks: they are not where every value of a column begins with one (`csv_spaces`).
      comment: a line that starts with this is no row; by default every line is one.
      missing: fields, without quotes, that are missing values, as "?" or "NA"; the empty field
        always is.

    Raises:
      ValueError: an option cannot be.
    """

    columns: tuple[str, ...] = ()
    delimiter: str = ""
    skip_spaces: Optional[bool] = None
    comment: str = ""
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for i, name in enumerate(self.columns):
            if not name or name in self.columns[:i]:
                problem = f"{name!r} is there twice" if name else "a name is empty"
                raise ValueError(f"--csv_columns: {problem}")
        character = self.separator(".csv")
        if len(character) != 1 or not character.isascii() or character in '"\r\n \0':
            raise ValueError(
                f"--csv_delimiter: got {self.delimiter!r}, expected one character, as ; or \\t"
            )
        if "\n" in self.comment or "\r" in self.comment or self.comment.startswith('"'):
            raise ValueError(
                f"--csv_comment: got {self.comment!r}, expected what lines that are no rows start "
                "with, as #"
            )

    @property
    def flags(self) -> dict[str, Any]:
        """The settings that differ from the usual way, by the names of their flags."""
        values = {
            "csv_columns": list(self.columns),
            "csv_delimiter": self.delimiter,
            "csv_skip_spaces": self.skip_spaces,
            "csv_comment": self.comment,
            "csv_missing": list(self.missing),
        }
        return {name: value for name, value in values.items() if value}

    def separator(self, path: str) -> str:
        """The character between the fields of a file."""
        if not self.delimiter:
            return "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
        return "\t" if self.delimiter == "\\t" else self.delimiter
