"""A `Tracker` that writes its calls to `calls.jsonl` in the model directory."""

from __future__ import annotations

import json
import os

from estimator_kit.observing.tracking import Tracker


class RecordingTracker(Tracker):
    def _add(self, *call):
        os.makedirs(self.model_dir, exist_ok=True)
        with open(os.path.join(self.model_dir, "calls.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")

    def start(self, parameters):
        self._add("start", self.name, dict(parameters))

    def metrics(self, by_step):
        self._add("metrics", {step: dict(values) for step, values in by_step.items()})

    def end(self, status, files, model):
        self._add("end", status, list(files), model)

    def promoted(self, version, path):
        self._add("promoted", version, path)


class BrokenTracker(RecordingTracker):
    def start(self, parameters):
        raise OSError("no route to https://ann:se@cret@host/api")


class RefusingTracker(RecordingTracker):
    def metrics(self, by_step):
        raise ValueError("metrics/recall@0.5")


def calls(model_dir):
    with open(os.path.join(model_dir, "calls.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
