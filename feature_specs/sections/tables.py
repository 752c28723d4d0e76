"""The section `tables` of a spec: how the CSV files are written that its records are made from.

    tables:
      csv_missing: ["?"]
      csv_skip_spaces: true

The entries are the flags of these names. `--mode=analyze` writes those that it was given, and
conversion, validation and prediction of CSV files take them from here, so that a field means the
same to all of them. The section is part of the copy of the spec in an export. It changes no model,
and files of other kinds do not heed it. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional

import pydantic

from feature_specs.entry import Entry, Words, as_tuple

_Words = Annotated[Optional[Words], pydantic.BeforeValidator(as_tuple)]


class Tables(Entry):
    """How CSV files are written, where that is not the usual way; each by default as its flag.

    Attributes:
      csv_columns: names of the columns of files that do not begin with a line of names.
      csv_delimiter: what separates fields.
      csv_skip_spaces: whether spaces at the start of a field are no part of it.
      csv_comment: a line that starts with this is no row.
      csv_missing: fields that are missing values.
    """

    csv_columns: _Words = None
    csv_delimiter: Optional[str] = None
    csv_skip_spaces: Optional[bool] = None
    csv_comment: Optional[str] = None
    csv_missing: _Words = None

    @property
    def given(self) -> dict[str, Any]:
        """The entries that say something, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


NO_TABLES = Tables()
