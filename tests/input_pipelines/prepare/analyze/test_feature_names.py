"""feature_names: what names say about integers."""

from __future__ import annotations

import pytest

from input_pipelines.prepare.analyze import feature_names

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app", "category"), ("ip", "category"), ("deviceType", "category"), ("iid", "category"),
        ("user-id", "category"), ("field_cd", "category"), ("zip2", "category"),
        ("os_build", "perhaps a category"), ("channelGroup", "perhaps a category"),
        ("app_age", "quantity"), ("num_devices", "quantity"), ("n_clicks", "quantity"),
        ("price", "quantity"), ("num_id", "category"), ("C14", None), ("kilometers", None),
        ("bid", None), ("", None),
    ],
)  # fmt: skip
def test_suggestions(name, expected):
    assert feature_names.suggests(name) == expected


def test_ids_and_cycles():
    assert feature_names.named_as_id("itemId") and not feature_names.named_as_id("device")
    assert feature_names.named_as_cycle("start_hour") and not feature_names.named_as_cycle("hours")
