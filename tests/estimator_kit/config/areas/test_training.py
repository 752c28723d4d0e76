"""Settings of a training that do not go together."""

from __future__ import annotations

import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize("folder", ["run[1]", "a*b", "what?", "back\\slash"])
@pytest.mark.parametrize("field", ["model_dir", "warm_start_from"])
def test_a_folder_of_checkpoints_without_wildcards(field, folder):
    """TensorFlow finds no checkpoint in `run[1]`, so a restart would begin again at step 0."""
    values = {"model_dir": "run", field: folder}
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(spec="s.yaml", train_files=("a",), mode="train", max_steps=1, **values)
    assert str(error.value) == (
        f"--{field}: expected a path without * ? [ \\, got {folder!r}. TensorFlow reads the path "
        "of a checkpoint as a pattern, and does not find it. Rename the folder."
    )
