"""The problems of a spec that a test breaks on purpose."""

from __future__ import annotations

import copy

import pytest

import feature_specs
from feature_specs.errors import SpecError


def problems_of(document: dict, **changes) -> list[str]:
    """The problems of a document after the changes `section__name=value`, without the file name."""
    changed = copy.deepcopy(document)
    for path, value in changes.items():
        section, name = path.split("__")
        changed[section][name] = value
    with pytest.raises(SpecError) as error:
        feature_specs.parse(changed)
    return [line.strip().removeprefix("<dict>: ") for line in str(error.value).splitlines()[1:]]
