"""`Tracker`: what a tracking service gets from a run. `--tracking=mlflow` is one; subclass another.

    class PrintTracker(ek.Tracker):
        def start(self, parameters):
            print(self.name, parameters)

        def metrics(self, by_step):
            print(by_step)

        def end(self, status, files, model):
            print(status, files, model)

        def promoted(self, version, path):
            print(version, path)

`--tracking=my_package.my_module:PrintTracker` uses it. The kit makes one instance a run, and calls
the methods in this order at the end of the run, whether it succeeded or not. An error in a method
is a warning: it does not change the outcome of the run. After an error in `start`, no other method
is called. A method that waits keeps the program waiting, so give its requests a time limit. Secrets
never get here, because flags hold only the paths of files with secrets.
"""

from __future__ import annotations

import abc
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional

from feature_specs.files import file_systems
from input_pipelines.errors import MissingPackageError


class Tracker(abc.ABC):
    """A service that stores runs.

    Its constructor checks what can be checked without a run, such as that a package is installed.
    It runs before the training.

    Args:
      name: the name of the model, which is the last part of the model directory.
      model_dir: the absolute path of the model directory. A start that goes on with a training has
        the same one.
    """

    def __init__(self, name: str, model_dir: str):
        self.name = name
        self.model_dir = model_dir

    @abc.abstractmethod
    def start(self, parameters: Mapping[str, str]) -> None:
        """Begins to log a run.

        Args:
          parameters: each flag that has a value, such as `{"model": "dnn", "epochs": "2"}`.
        """

    @abc.abstractmethod
    def metrics(self, by_step: Mapping[int, Mapping[str, float]]) -> None:
        """Logs metrics by global step, such as `{800: {"auc/click": 0.79}}`.

        Names of `observed/training.jsonl` start with `training/`. Values are finite.
        """

    @abc.abstractmethod
    def end(self, status: str, files: Sequence[str], model: Optional[str]) -> None:
        """Logs the outcome of a run.

        Args:
          status: `done`, `stopped` or `failed`; for a cycle of retraining `promoted`, `refused`,
            `stopped` or `failed`.
          files: the paths of files to keep with the run, such as the report page.
          model: the path of the SavedModel, or None.
        """

    @abc.abstractmethod
    def promoted(self, version: int, path: str) -> None:
        """Logs that a version of retraining is live. For a rollback, it is the only method called.

        Args:
          version: its number in the serving directory.
          path: its SavedModel.
        """


_log = logging.getLogger("estimator_kit")

ALIAS = "live"

_FOLDER = "estimator_kit.model_dir"
_KEY = "estimator_kit.model_dir_sha256"
_STATUS = "estimator_kit.status"
_MODEL = "estimator_kit.saved_model"
_VERSION = "estimator_kit.serving_version"

# What one request of MLflow may have.
_MOST_METRICS, _MOST_PARAMETERS, _LONGEST = 1000, 100, 6000

# What no name may have, and its length.
_NOT_IN_NAMES = re.compile(r"[^\w\-./ ]", re.ASCII)
_LONGEST_NAME = 250

# For a server that does not answer. 3 more tries wait for 0, 4 and 8 seconds. MLflow's defaults, 7
# tries and 120 seconds, are made for servers that limit the rate of requests.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}

# The codes of an error about what was sent.
_REFUSED = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")

_STATES = {"failed": "FAILED", "stopped": "KILLED"}


def allowed_names(names: Iterable[str]) -> dict[str, str]:
    """For each name, the name that MLflow takes. Different names stay different."""
    allowed: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names, key=lambda name: (bool(_NOT_IN_NAMES.search(name)), name)):
        plain = _NOT_IN_NAMES.sub("_", name.replace("@", "_at_"))
        plain = "/".join(part for part in plain.split("/") if part.strip("."))  # No `..` or `//`.
        plain = plain[:_LONGEST_NAME].rstrip("/") or "_"
        number, start = 1, plain
        while plain in taken:
            number += 1
            plain = f"{start[: _LONGEST_NAME - 8]}_{number}"
        taken.add(plain)
        allowed[name] = plain
    return allowed


class MLflowTracker(Tracker):
    """`--tracking=mlflow`: logs runs to MLflow, with mlflow-skinny of the extra `mlflow`.

    MLflow reads its own settings: `MLFLOW_TRACKING_URI`, `MLFLOW_REGISTRY_URI`, and
    `MLFLOW_EXPERIMENT_NAME` (by default the experiment `Default`). A start that goes on with the
    same flags goes on with its run; with other flags it begins a new one, because MLflow does not
    change parameters. A promoted version is uploaded to its run, and registered under the name of
    the model with the alias `live`, so a server needs no access to the serving directory.

    In a name, MLflow takes only letters, digits, spaces and `_-./`. So `recall@0.5` is logged as
    `recall_at_0.5`, and any other character as `_`. What MLflow refuses for another reason is left
    out with a warning, and does not keep the rest away. A server that does not answer is given up
    after seconds, not after the minutes that MLflow takes; its own settings
    `MLFLOW_HTTP_REQUEST_MAX_RETRIES` and `MLFLOW_HTTP_REQUEST_TIMEOUT` change that.

    Raises:
      MissingPackageError: mlflow-skinny is not installed.
    """

    def __init__(self, name: str, model_dir: str):
        super().__init__(name, model_dir)
        try:
            import mlflow
            import mlflow.entities
            import mlflow.exceptions
        except ImportError as error:
            raise MissingPackageError(
                "--tracking=mlflow needs the package mlflow-skinny. Install it with "
                f"`pip install 'estimator-kit[mlflow]'` ({error})"
            ) from error
        # MLflow prints the address of each run, with the password in MLFLOW_TRACKING_URI.
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        for setting, value in _PATIENCE.items():
            os.environ.setdefault(setting, value)
        self._mlflow: Any = mlflow
        self._run: Any = None
        self._made_client: Any = None

    @property
    def _client(self) -> Any:
        """The connection, which is made after the training."""
        if self._made_client is None:
            self._made_client = self._mlflow.MlflowClient()
        return self._made_client

    def start(self, parameters: Mapping[str, str]) -> None:
        names = allowed_names(parameters)
        stored = {names[name]: value[:_LONGEST] for name, value in parameters.items() if value}
        last = self._last_run()
        if last is not None and last.data.params == stored:
            self._run = last
            self._client.update_run(last.info.run_id, status="RUNNING")
            return
        self._run = self._new_run()
        values = [self._mlflow.entities.Param(name, value) for name, value in stored.items()]
        self._send(
            "parameter", values, _MOST_PARAMETERS,
            lambda some: self._client.log_batch(self._run_id, params=some),
        )  # fmt: skip

    def metrics(self, by_step: Mapping[int, Mapping[str, float]]) -> None:
        now = int(1000 * time.time())
        names = allowed_names({name for metrics in by_step.values() for name in metrics})
        values = [
            self._mlflow.entities.Metric(names[name], value, now, step)
            for step, metrics in by_step.items()
            for name, value in metrics.items()
        ]
        self._send(
            "metric", values, _MOST_METRICS,
            lambda some: self._client.log_batch(self._run_id, metrics=some),
        )  # fmt: skip

    def _send(
        self, noun: str, values: list[Any], most: int, send: Callable[[list[Any]], None]
    ) -> None:
        """Sends values, `most` at once. If MLflow refuses some names, sends the rest."""
        for i in range(0, len(values), most):
            some = values[i : i + most]
            try:
                send(some)
            except self._mlflow.exceptions.MlflowException as error:
                if error.error_code not in _REFUSED:
                    raise
                self._send_by_name(noun, some, send)

    def _send_by_name(
        self, noun: str, values: list[Any], send: Callable[[list[Any]], None]
    ) -> None:
        for name in dict.fromkeys(value.key for value in values):
            try:
                send([value for value in values if value.key == name])
            except self._mlflow.exceptions.MlflowException as error:
                if error.error_code not in _REFUSED:
                    raise
                _log.warning("MLflow refused the %s %r: %s", noun, name, error)

    def end(self, status: str, files: Sequence[str], model: Optional[str]) -> None:
        try:
            for path in files:
                self._client.log_artifact(self._run_id, path)
            if model is not None:
                self._client.set_tag(self._run_id, _MODEL, file_systems.absolute(model))
            self._client.set_tag(self._run_id, _STATUS, status)
        finally:  # Whatever MLflow refuses, its run does not stay in the state RUNNING.
            self._client.set_terminated(self._run_id, _STATES.get(status, "FINISHED"))

    def promoted(self, version: int, path: str) -> None:
        if self._run is None:  # A rollback has no training.
            self._run = self._new_run()
            self._client.set_tag(self._run_id, _STATUS, "rollback")
            self._client.set_terminated(self._run_id, "FINISHED")
        self._client.log_artifacts(self._run_id, path, "saved_model")
        try:
            self._client.get_registered_model(self.name)
        except self._mlflow.exceptions.MlflowException:
            self._client.create_registered_model(self.name)
        model_version = self._client.create_model_version(
            self.name,
            source=f"{self._run.info.artifact_uri}/saved_model",
            run_id=self._run_id,
            tags={_VERSION: str(version)},
        )
        self._client.set_registered_model_alias(self.name, ALIAS, model_version.version)

    @property
    def _run_id(self) -> str:
        return str(self._run.info.run_id)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
        experiment = self._client.get_experiment_by_name(name)
        return str(experiment.experiment_id if experiment else self._client.create_experiment(name))

    def _last_run(self) -> Any:
        """The newest run of this model directory, or None."""
        runs = self._client.search_runs(
            [self._experiment()],
            filter_string=f"tags.`{_KEY}` = '{self._key()}'",
            max_results=1,
            order_by=["attributes.start_time DESC"],
        )
        return runs[0] if runs else None

    def _key(self) -> str:
        """Stands for the model directory in a search, where a path may have no quotes."""
        return hashlib.sha256(self.model_dir.encode()).hexdigest()

    def _new_run(self) -> Any:
        tags = {_FOLDER: self.model_dir, _KEY: self._key()}
        return self._client.create_run(self._experiment(), tags=tags, run_name=self.name)
