"""`CsvOptions`: how a CSV file is written, if it differs from the usual form. Imports no packages.

The usual form: UTF-8, a line of column names, then one row on each line. Commas (tabs in a .tsv
file) separate the fields. A field is in double quotes if it contains a comma, a quote (written
twice) or a line break. An empty field is a missing value, but two quotes with nothing between them
are the empty string; in a column of numbers, they are a missing value. Empty lines are ignored. If
a file has only one column, they are missing values.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional


@dataclasses.dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written.

    Attributes:
      columns: the names of the columns, for files that do not start with a line of column names.
      delimiter: the character that separates fields; by default a comma, or a tab for .tsv.
      skip_spaces: whether to ignore spaces at the start of a field, before its quotes. None
        decides by the file: they are ignored if every value of a column begins with a space
        (`csv_lines`).
      comment: lines that start with this text are ignored; by default no line is ignored.
      missing: unquoted fields that are missing values, such as "?" or "NA". An empty field is
        always a missing value. In a column of numbers, these are missing values in quotes, too.
      list_separator: the text between the values of a list in one field; see `formats.csv`. By
        default a field is one value.

      thousands: whether commas separate the thousands of numbers, as in 69,487.00. None decides by
        the columns without a spec (`text_types`), and is False with a spec.

    Raises:
      ValueError: an option has an invalid value.
    """

    columns: tuple[str, ...] = ()
    delimiter: str = ""
    skip_spaces: Optional[bool] = None
    comment: str = ""
    missing: tuple[str, ...] = ()
    list_separator: str = ""
    thousands: Optional[bool] = None

    def __post_init__(self) -> None:
        for i, name in enumerate(self.columns):
            if not name or name in self.columns[:i]:
                problem = f"{name!r} is listed twice" if name else "a name is empty"
                raise ValueError(f"--csv_columns: {problem}")
        character = self.separator(".csv")
        if len(character) != 1 or not character.isascii() or character in '"\r\n \0':
            raise ValueError(
                f"--csv_delimiter: got {self.delimiter!r}, expected one character, such as ; or \\t"
            )
        if "\n" in self.comment or "\r" in self.comment or self.comment.startswith('"'):
            raise ValueError(
                f"--csv_comment: got {self.comment!r}, expected the text at the start of comment "
                "lines, such as #"
            )

        if any(sign in self.list_separator for sign in '"\r\n\0'):
            raise ValueError(
                f"--csv_list_separator: got {self.list_separator!r}, expected the text between the "
                "values of a list, such as |"
            )

    def document(self) -> dict[str, Any]:
        """All settings as JSON, for a plan. Settings that are newer than plans appear if given."""
        values = dataclasses.asdict(self)
        for name in ("list_separator", "thousands"):
            if not values[name]:
                del values[name]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @property
    def flags(self) -> dict[str, Any]:
        """The settings that a spec must keep, by the names of their flags.

        Those that change values are complete, so that no later file or flag decides them again. The
        layout of one file (names, delimiter, comments) is left out where it is the usual one.
        """
        layout = {
            "csv_columns": list(self.columns),
            "csv_delimiter": self.delimiter,
            "csv_comment": self.comment,
        }
        return {
            **{name: value for name, value in layout.items() if value},
            "csv_skip_spaces": bool(self.skip_spaces),
            "csv_missing": list(self.missing),
            "csv_list_separator": self.list_separator,
            **({"csv_thousands": True} if self.thousands else {}),
        }

    def separator(self, path: str) -> str:
        """The character between the fields of a file."""
        if not self.delimiter:
            return "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
        return "\t" if self.delimiter == "\\t" else self.delimiter
