"""The columns of a search on TensorBoard's page HParams.

Each trial writes its own parameters and metrics, as every training does. TensorBoard takes the
columns from the first run that names columns. `write` makes such a run in the folder of all trials,
so that every searched parameter has a column, also a flag that has its default in some trials.
"""

from __future__ import annotations

import os

import tensorflow as tf

from estimator_kit.observing.tensorboard import once, plugin_data, summaries
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import corners
from estimator_kit.tuning.trial_config import FLAGS
from feature_specs.spec import FeatureSpec


def write(trials_dir: str, search: Search, spec: FeatureSpec) -> None:
    """Writes the columns, unless an earlier start has written them.

    Args:
      trials_dir: the folder of all trials.
      search: its parameters become columns.
      spec: its main metrics become columns, after the metric of the search.
    """
    if tf.io.gfile.glob(os.path.join(trials_dir, "events*")):
        return
    metrics = list(dict.fromkeys([search.metric, *once.main_metrics(spec), "loss"]))
    values = [summaries.hparams("experiment", plugin_data.experiment(columns(search), metrics))]
    once.write_file(trials_dir, values, 0, first=True)


def columns(search: Search) -> dict[str, object]:
    """The searched parameters by their name on the page, with an example of their values."""
    found: dict[str, object] = {}
    for name, values in corners(search):
        place = name if name in FLAGS else f"model_params/{name}"
        found[place] = plugin_data.plain(values[name])
    return found
