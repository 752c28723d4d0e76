"""The manifests of examples/cluster hold to their schemas, and start what they say."""

from __future__ import annotations

import os
import subprocess

import jsonschema
import pytest
import yaml
from absl import flags as absl_flags

from estimator_kit import cluster
from estimator_kit.flags import config_from_flags, define_flags
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "cluster"


def closed(required: dict, **optional: dict) -> dict:
    """An object with these fields and no others."""
    return {
        "type": "object", "required": sorted(required), "additionalProperties": False,
        "properties": {**required, **optional},
    }  # fmt: skip


TEXT, NUMBER = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
METADATA = closed({"name": NAME})


def listed(entry: dict) -> dict:
    return {"type": "array", "items": entry, "minItems": 1}


# What of Kubernetes' core/v1 and batch/v1 and of kubeflow.org/v1 is used; names and types are those
# of their OpenAPI definitions.
CONTAINER = closed(
    {"name": NAME, "image": TEXT},
    command=TEXTS, args=TEXTS,
    env=listed(closed({"name": TEXT, "value": {"type": "string"}})),
    ports=listed(closed({"containerPort": NUMBER}, name=NAME)),
    volumeMounts=listed(closed({"name": NAME, "mountPath": TEXT})),
)  # fmt: skip
VOLUME = closed({"name": NAME}, persistentVolumeClaim=closed({"claimName": NAME}))
POD = closed(
    {"containers": listed(CONTAINER)},
    volumes=listed(VOLUME), restartPolicy={"enum": ["OnFailure", "Never"]}, subdomain=NAME,
)  # fmt: skip
LABELS = {"type": "object", "additionalProperties": TEXT}
JOB = closed(
    {
        "apiVersion": {"const": "batch/v1"}, "kind": {"const": "Job"}, "metadata": METADATA,
        "spec": closed(
            {"template": closed({"spec": {**POD, "required": ["containers", "restartPolicy"]}},
                                metadata=closed({}, labels=LABELS))},
            completions=NUMBER, parallelism=NUMBER, backoffLimit=NUMBER,
            completionMode={"enum": ["Indexed", "NonIndexed"]},
        ),
    }
)  # fmt: skip
SERVICE = closed(
    {
        "apiVersion": {"const": "v1"}, "kind": {"const": "Service"}, "metadata": METADATA,
        "spec": closed(
            {"ports": listed(closed({"port": NUMBER}, name=NAME))}, clusterIP={"const": "None"},
            publishNotReadyAddresses={"type": "boolean"}, selector=LABELS,
        ),
    }
)  # fmt: skip
REPLICAS = closed(
    {"replicas": NUMBER, "template": closed({"spec": POD}, metadata=closed({}, labels=LABELS))},
    restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
)
TFJOB = closed(
    {
        "apiVersion": {"const": "kubeflow.org/v1"}, "kind": {"const": "TFJob"},
        "metadata": METADATA,
        "spec": closed(
            {"tfReplicaSpecs": closed({}, **dict.fromkeys(
                ("Chief", "Worker", "PS", "Evaluator", "Master"), REPLICAS))},
            runPolicy=closed({}, backoffLimit=NUMBER, cleanPodPolicy={
                "enum": ["All", "Running", "None"]}),
        ),
    }
)  # fmt: skip


def config_of(arguments: list[str]):
    values = absl_flags.FlagValues()
    define_flags(values)
    spec = ["--spec=s", "--train_files=a", "--eval_files=b", "--max_steps=1"]
    assert values(["run.py", *spec, *arguments])[1:] == []
    return config_from_flags(values)


def test_the_tfjob():
    document = yaml.safe_load((FOLDER / "tfjob.yaml").read_text())
    jsonschema.validate(document, TFJOB)
    for replicas in document["spec"]["tfReplicaSpecs"].values():
        (container,) = replicas["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"  # The operator looks for it.
        config = config_of([a for a in container["args"] if not a.startswith("--flagfile")])
        assert config.strategy == "parameter_server"


def test_the_jobs():
    documents = list(yaml.safe_load_all((FOLDER / "jobs.yaml").read_text()))
    jsonschema.validate(documents[0], SERVICE)
    tasks = []
    for document in documents[1:]:
        jsonschema.validate(document, JOB)
        template = document["spec"]["template"]
        assert template["metadata"]["labels"] == documents[0]["spec"]["selector"]
        assert template["spec"]["subdomain"] == documents[0]["metadata"]["name"]
        (container,) = template["spec"]["containers"]
        (value,) = (e["value"] for e in container["env"])
        for index in range(document["spec"]["completions"]):
            command = container["args"][0].replace("$(TASK)", value)
            command = command.replace("$(JOB_COMPLETION_INDEX)", str(index))
            config = config_of([a for a in command.split()[2:] if "flagfile" not in a])
            view = cluster.view_of(config, {})
            tasks.append(view.name)
            host = f"{document['metadata']['name']}-{index}.ads:2222"
            assert view.address in (host, None)
    assert tasks == ["chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"]


@pytest.mark.parametrize("code", [0, 75])
def test_the_script_with_ssh(tmp_path, code):
    """In the place of ssh, a script that runs the command here; in that of the kit, one that says
    how it was called."""
    for name, text in {
        "there": 'shift\nexec sh -c "$1"\n',
        "estimator-kit": f'echo "$@"\ncase "$*" in *task_index=0*--worker*) exit {code};; esac\n',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [str(FOLDER / "ssh.sh"), "h0 h1", "h2", "h3", "--model_dir=m",
         "--train_files=a b;echo 'c'*"], cwd=tmp_path, check=False, timeout=60,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
             "REMOTE": str(tmp_path / "there")},
    )  # fmt: skip
    assert done.returncode == code
    tasks = []
    for log in sorted((tmp_path / "logs").iterdir()):
        said = log.read_text()
        assert "--train_files=a b;echo 'c'* --job_name" in said  # One word, and nothing is run.
        said = said.replace("a b;echo 'c'*", "a")
        view = cluster.view_of(config_of(said.split()), {})
        assert view.tasks() == [
            ("chief:0", "h0:2222"), ("worker:0", "h1:2222"), ("ps:0", "h2:2222"),
        ]  # fmt: skip
        tasks.append((log.stem, view.name))
    assert tasks == [
        ("evaluator-0", "evaluator:0"), ("ps-0", "ps:0"), ("worker-0", "chief:0"),
        ("worker-1", "worker:0"),
    ]  # fmt: skip
