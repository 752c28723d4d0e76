"""The versions in a folder of exports."""

from __future__ import annotations

from estimator_kit.exporters.versions import versions


def test_only_plain_numbers_are_versions_in_their_order(tmp_path):
    assert versions(str(tmp_path / "none")) == []
    for name in ("10", "9", "007", "²", "temp-11", ".staging-12-1"):
        (tmp_path / name).mkdir()
    assert versions(str(tmp_path)) == [f"{tmp_path}/9", f"{tmp_path}/10"]
