"""The section `tables` of a spec: the format of the CSV files that the records are made from.

    tables:
      csv_missing: ["?"]
      csv_skip_spaces: true

Each entry has the name of a flag. `--mode=analyze` writes the flags that it was given, and how it
read fields, into this section. Conversion, validation and prediction of CSV files read them from
here, so that all of them interpret a field in the same way. The spec in an export contains the
section. It does not change the model, and it has no effect on other file formats. This module does
not import TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Declared, Words, as_tuple


class TextOfValues(Declared):
    """How the text of one field is read. It must be the same in all files of a model."""

    changes = "records"

    csv_skip_spaces: Optional[bool] = Field(
        None,
        description="Whether to ignore spaces at the start of a field. The default is `false`, but "
        "a file in which every value of a column starts with a space is refused until this is set.",
    )
    csv_missing: Annotated[Optional[tuple[str, ...]], pydantic.BeforeValidator(as_tuple)] = Field(
        None,
        description="The fields that stand for missing values, in addition to empty fields.",
    )
    csv_list_separator: Optional[str] = Field(
        None,
        description="The text between the values of a list in one field, such as `|`. An empty "
        "text means that a field is one value.",
    )


class Tables(TextOfValues):
    """The format of CSV files. The default of each entry is the default of the flag of its name.

    Its own entries say where the fields of one file are. They may differ between files.
    """

    csv_columns: Annotated[Optional[Words], pydantic.BeforeValidator(as_tuple)] = Field(
        None, description="The column names of files that do not start with a header line."
    )
    csv_delimiter: Optional[str] = Field(None, description="The character between two fields.")
    csv_comment: Optional[str] = Field(
        None, description="Lines that start with this text are ignored."
    )

    @property
    def given(self) -> dict[str, Any]:
        """The entries that are set, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


NO_TABLES = Tables()
