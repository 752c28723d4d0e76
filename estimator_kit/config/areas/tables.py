"""The format of CSV files, and Apache Beam for large tables. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import Settings, setting
from estimator_kit.config.areas.program import Program
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.tables.options import CsvOptions


class Tables(Settings):
    """The format of CSV files, and Apache Beam for large tables."""

    heading: ClassVar[str] = "Tables"

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
    csv_thousands: Optional[bool] = setting(
        None,
        "Commas separate the thousands of numbers in CSV files, as in 69,487.00. By default, "
        "--mode=analyze decides this by the columns whose values would otherwise all be numbers; "
        "--nocsv_thousands reads such numbers as text.",
        changes="records",
    )
    beam_options: Optional[str] = setting(
        None,
        "Do the work as an Apache Beam pipeline with these flags of Beam, separated by spaces: "
        "--beam_options='--runner=DataflowRunner --project=ads --region=europe-west1 "
        "--temp_location=gs://ads/temporary'. --runner is required. The output is the same as "
        "without Beam. The workers need estimator-kit, and must reach the files and "
        "--convert_dir by the same paths as this program. Analysis on other machines needs "
        "--temp_location. This flag needs `pip install 'estimator-kit[beam]'`.",
        changes="nothing",
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
            thousands=self.csv_thousands,
        )

    def beam_flags(self) -> Optional[tuple[str, ...]]:
        """The flags of the Apache Beam pipeline, or None without `--beam_options`."""
        return None if self.beam_options is None else beam_runner.split(self.beam_options)


def problems(tables: Tables, program: Program) -> list[str]:
    """What is wrong with the format of CSV files and with `--beam_options`."""
    lines = []
    try:
        tables.csv_options()
    except ValueError as error:
        lines.append(str(error))
    if tables.beam_options is None:
        return lines
    if program.mode not in ("analyze", "convert"):
        lines.append("--beam_options is for --mode=convert and --mode=analyze. Remove it.")
    try:
        tables.beam_flags()
    except beam_runner.BeamFlagsError as error:
        lines.append(f"--beam_options: {error}")
    return lines
