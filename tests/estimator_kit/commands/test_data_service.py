"""The port of a dispatcher's last start; tests/integration starts real servers."""

from __future__ import annotations

import pathlib

import pytest

from estimator_kit.commands import data_service
from estimator_kit.errors import ConfigError


def test_the_port_of_the_last_start(tmp_path):
    folder = str(tmp_path)
    assert data_service._port_of_before(folder) == 0
    path = pathlib.Path(data_service._port_file(folder))
    path.write_text("5000\n")
    assert data_service._port_of_before(folder) == 5000
    for text in ("", "0", "65536", "²", "1" * 5000):
        path.write_text(text)
        with pytest.raises(ConfigError) as error:
            data_service._port_of_before(folder)
        assert str(error.value) == (
            f"--data_service_dir: {path} expected the port of the last start, got {text[:40]!r}. "
            "Give --data_service_port."
        )
