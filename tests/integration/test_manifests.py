"""The manifests of examples/cluster are valid, and start the commands that they contain."""

from __future__ import annotations

import os
import signal
import subprocess

import jsonschema
import pytest
import yaml
from absl import flags as absl_flags

from estimator_kit import exit_codes
from estimator_kit.config import cluster
from estimator_kit.config.flags import config_from_flags, define_flags
from tests.conftest import ROOT
from tests.integration.clusters import until

pytestmark = pytest.mark.no_tensorflow

FOLDER = ROOT / "examples" / "cluster"


def closed(required: dict, **optional: dict) -> dict:
    """An object with exactly these fields."""
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


# The used parts of Kubernetes' core/v1 and batch/v1 and of kubeflow.org/v1. Names and types are the
# same as in their OpenAPI definitions.
CONTAINER = closed(
    {"name": NAME, "image": TEXT},
    command=TEXTS, args=TEXTS,
    env=listed(closed({"name": TEXT, "value": {"type": "string"}})),
    ports=listed(closed({"containerPort": NUMBER}, name=NAME)),
    volumeMounts=listed(closed({"name": NAME, "mountPath": TEXT})),
    resources=closed({}, limits={"type": "object", "additionalProperties": NUMBER}),
)  # fmt: skip
VOLUME = closed({"name": NAME}, persistentVolumeClaim=closed({"claimName": NAME}))
POD = closed(
    {"containers": listed(CONTAINER)},
    volumes=listed(VOLUME), restartPolicy={"enum": ["OnFailure", "Never"]}, subdomain=NAME,
)  # fmt: skip
LABELS = {"type": "object", "additionalProperties": TEXT}
POD_FAILURES = closed({"rules": listed({"oneOf": [
    closed({"action": {"enum": ["Ignore", "FailJob", "FailIndex", "Count"]},
            "onExitCodes": closed({"operator": {"enum": ["In", "NotIn"]},
                                   "values": listed({"type": "integer", "minimum": 1})})}),
    closed({"action": {"enum": ["Ignore", "FailJob", "Count"]},
            "onPodConditions": listed(closed({"type": TEXT, "status": TEXT}))}),
]})})  # fmt: skip
JOB = closed(
    {
        "apiVersion": {"const": "batch/v1"}, "kind": {"const": "Job"}, "metadata": METADATA,
        "spec": closed(
            {"template": closed({"spec": {**POD, "required": ["containers", "restartPolicy"]}},
                                metadata=closed({}, labels=LABELS))},
            completions=NUMBER, parallelism=NUMBER, backoffLimitPerIndex=NUMBER,
            completionMode={"enum": ["Indexed", "NonIndexed"]}, podFailurePolicy=POD_FAILURES,
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
POLICY = closed(
    {
        "apiVersion": {"const": "networking.k8s.io/v1"}, "kind": {"const": "NetworkPolicy"},
        "metadata": METADATA,
        "spec": closed(
            {"podSelector": closed({"matchLabels": LABELS})},
            policyTypes={"type": "array", "items": {"enum": ["Ingress", "Egress"]}},
            ingress=listed(closed(
                {"from": listed(closed({"podSelector": closed({"matchLabels": LABELS})}))})),
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


@pytest.mark.parametrize(
    ("file", "strategy"),
    [("tfjob.yaml", "parameter_server"), ("tfjob_all_reduce.yaml", "multi_worker_mirrored")],
)
def test_the_tfjobs(file, strategy):
    document, policy = yaml.safe_load_all((FOLDER / file).read_text())
    jsonschema.validate(document, TFJOB)
    jsonschema.validate(policy, POLICY)
    selector = policy["spec"]["podSelector"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]
    assert ("PS" in document["spec"]["tfReplicaSpecs"]) == (strategy == "parameter_server")
    for replicas in document["spec"]["tfReplicaSpecs"].values():
        assert replicas["template"]["metadata"]["labels"] == selector["matchLabels"]
        (container,) = replicas["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"  # The operator looks for this name.
        config = config_of([a for a in container["args"] if not a.startswith("--flagfile")])
        assert config.strategy == strategy
        assert config.exit_code_style == "kubernetes"


def test_the_jobs():
    documents = list(yaml.safe_load_all((FOLDER / "jobs.yaml").read_text()))
    jsonschema.validate(documents[0], SERVICE)
    jsonschema.validate(documents[1], POLICY)
    selector = {"matchLabels": documents[0]["spec"]["selector"]}
    assert documents[1]["spec"]["podSelector"] == selector
    assert documents[1]["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]
    tasks = []
    for document in documents[2:]:
        jsonschema.validate(document, JOB)
        template = document["spec"]["template"]
        # With a podFailurePolicy the API accepts no other value.
        assert template["spec"]["restartPolicy"] == "Never"
        for rule in document["spec"]["podFailurePolicy"]["rules"]:
            assert set(rule.get("onExitCodes", {}).get("values", [])) <= {
                exit_codes.BAD_CONFIG, exit_codes.BAD_DATA, exit_codes.BUG,
                exit_codes.EXPORT_REFUSED,
            }  # fmt: skip
        # FailIndex requires a limit for each index.
        assert document["spec"]["completionMode"] == "Indexed"
        assert document["spec"]["backoffLimitPerIndex"] > 0
        assert template["metadata"]["labels"] == documents[0]["spec"]["selector"]
        assert template["spec"]["subdomain"] == documents[0]["metadata"]["name"]
        (container,) = template["spec"]["containers"]
        (value,) = (e["value"] for e in container["env"])
        for index in range(document["spec"]["completions"]):
            command = container["args"][0].replace("$(TASK)", value)
            command = command.replace("$(JOB_COMPLETION_INDEX)", str(index))
            config = config_of([a for a in command.split()[2:] if "flagfile" not in a])
            assert config.exit_code_style == "kubernetes"
            view = cluster.view_of(config, {})
            tasks.append(view.name)
            host = f"{document['metadata']['name']}-{index}.ads:2222"
            assert view.address in (host, None)
    assert tasks == ["chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"]


def stand_ins(folder, kit):
    """Makes two fake programs: `there` (for ssh) runs its command here; `estimator-kit` runs `kit`.

    Returns an environment that finds them.
    """
    for name, text in {"there": 'shift\nexec sh -c "$1"\n', "estimator-kit": kit}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
            "REMOTE": str(folder / "there")}  # fmt: skip


def test_a_signal_for_the_script_with_ssh_stops_the_chief(tmp_path):
    environment = stand_ins(
        tmp_path,
        'case "$*" in *worker*task_index=0*--worker*) ;; *) exit 75;; esac\n'
        "trap 'exit 143' TERM\necho ready\nwhile :; do sleep 0.02; done\n",
    )
    command = [str(FOLDER / "ssh.sh"), "h0 h1", "h2", "h3", "--model_dir=m"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        log = tmp_path / "logs" / "worker-0.log"
        until(lambda: log.exists() and "ready" in log.read_text(), "chief")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


@pytest.mark.parametrize("code", [0, 75])
def test_the_script_with_ssh(tmp_path, code):
    environment = stand_ins(
        tmp_path, f'echo "$@"\ncase "$*" in *task_index=0*--worker*) exit {code};; esac\n'
    )
    done = subprocess.run(
        [str(FOLDER / "ssh.sh"), "h0 h1", "h2", "h3", "--model_dir=m",
         "--train_files=a b;echo 'c'*"], cwd=tmp_path, check=False, timeout=60, env=environment,
    )  # fmt: skip
    assert done.returncode == code
    tasks = []
    for log in sorted((tmp_path / "logs").iterdir()):
        said = log.read_text()
        assert "--train_files=a b;echo 'c'* --job_name" in said  # It stays one word and is not run.
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
