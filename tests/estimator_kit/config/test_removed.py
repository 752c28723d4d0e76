"""Settings of earlier versions that are constants now."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.flags import config_from_flagfile, read_command_line
from estimator_kit.config.removed import REMOVED

pytestmark = pytest.mark.no_tensorflow

TEXT = (
    ". It was removed. 16 requests of each protocol run at once. For more, use TensorFlow Serving."
)


def test_flags_of_an_earlier_run_can_still_be_read(tmp_path):
    file = tmp_path / "flags.txt"
    lines = [f"--{name}={value}\n" for name, (value, _) in REMOVED.items() if value is not None]
    file.write_text("".join(lines) + "--mode=serve\n--serving_models=a=b\n")
    assert len(lines) == 5 and config_from_flagfile(str(file)).serving_models == ("a=b",)
    assert read_command_line([f"--flagfile={file}"]).values["mode"].value == "serve"
    file.write_text("--serving_threads=8\n--serving_image=a:1\n")
    with pytest.raises(ek.ConfigError) as error:
        config_from_flagfile(str(file))
    assert str(error.value).splitlines() == [
        f"{file}:1: '--serving_threads=8': unknown flag --serving_threads{TEXT}",
        f"{file}:2: '--serving_image=a:1': unknown flag --serving_image. It was removed. The image "
        "belongs to the installed TensorFlow. Write your own into the copy of examples/serving "
        "that you start.",
    ]


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_setting_says_what_to_do_instead(name):
    expected = f"{name}. It was removed. {REMOVED[name].instead}"
    with pytest.raises(ek.ConfigError) as error:
        read_command_line([f"--{name}=16"])
    assert str(error.value) == f"unknown flag --{expected}"
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(mode="validate", **{name: 16})
    assert f"unknown field {name!r}. It was removed. {REMOVED[name].instead}" in str(error.value)
