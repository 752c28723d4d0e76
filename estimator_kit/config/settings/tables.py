"""The format of CSV files."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import Settings, setting
from input_pipelines.prepare.tables.options import CsvOptions


class TableSettings(Settings):
    """The format of CSV files."""

    heading: ClassVar[str] = "CSV files"

    csv_columns: tuple[str, ...] = setting(
        (),
        "The names of the columns, for CSV files that do not start with a line of names.",
        changes="records",
    )
    csv_delimiter: Optional[str] = setting(
        None,
        "The character between the fields of CSV files, \\t for a tab. By default a comma, or "
        "a tab for .tsv.",
        changes="records",
    )
    csv_skip_spaces: Optional[bool] = setting(
        None,
        "Ignore spaces at the start of the fields of CSV files. By default this is so for a "
        "column whose values all start with a space; --nocsv_skip_spaces keeps the spaces.",
        changes="records",
    )
    csv_comment: Optional[str] = setting(
        None,
        "Ignore lines of CSV files that start with this text, such as #.",
        changes="records",
    )
    csv_missing: tuple[str, ...] = setting(
        (),
        "Fields of CSV files that count as missing values, such as ? or NA. An empty field is "
        "always missing; two quotes with nothing between them are the empty string. In a column of "
        "numbers, both are missing in quotes, too.",
        changes="records",
    )
    csv_list_separator: Optional[str] = setting(
        None,
        "The text between the values of a list in one field of CSV files, such as |. A column has "
        "lists if any of its fields has this text. --csv_missing is for whole fields.",
        changes="records",
    )

    def csv_options(self) -> CsvOptions:
        """The format of CSV files."""
        return CsvOptions(
            columns=self.csv_columns,
            delimiter=self.csv_delimiter or "",
            skip_spaces=self.csv_skip_spaces,
            comment=self.csv_comment or "",
            missing=self.csv_missing,
            list_separator=self.csv_list_separator or "",
        )
