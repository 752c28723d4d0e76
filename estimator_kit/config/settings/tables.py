"""How CSV files are written."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import Settings, setting
from input_pipelines.prepare.tables.options import CsvOptions


class TableSettings(Settings):
    """How CSV files are written."""

    heading: ClassVar[str] = "CSV files"

    csv_columns: tuple[str, ...] = setting(
        (),
        "Names of the columns of CSV files that do not begin with a line of names.",
    )
    csv_delimiter: Optional[str] = setting(
        None,
        "What separates the fields of CSV files: one character, \\t for a tab; by default a "
        "comma, and a tab for .tsv.",
    )
    csv_skip_spaces: Optional[bool] = setting(
        None,
        "Spaces at the start of the fields of CSV files are no part of them. When not given, "
        "that is so where every value of a column begins with a space; --nocsv_skip_spaces "
        "keeps them.",
    )
    csv_comment: Optional[str] = setting(
        None,
        "Lines of CSV files that start with this, as #, are no rows.",
    )
    csv_missing: tuple[str, ...] = setting(
        (),
        "Fields of CSV files that are missing values, as ? or NA. An empty field always is; two "
        "quotes with nothing between them are the empty string.",
    )

    def csv_options(self) -> CsvOptions:
        """How CSV files are written."""
        return CsvOptions(
            columns=self.csv_columns,
            delimiter=self.csv_delimiter or "",
            skip_spaces=self.csv_skip_spaces,
            comment=self.csv_comment or "",
            missing=self.csv_missing,
        )
