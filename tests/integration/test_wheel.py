"""The built wheels of the kit, its client and its compat work outside the source tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import ROOT
from tests.estimator_kit.client import alone

pytestmark = pytest.mark.ci


def python(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, timeout=300,
        **kwargs,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the kit, of the client and of compat, built from a clone."""
    folder = tmp_path_factory.mktemp("wheels")
    source = folder / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    kit = source / "estimator_kit"
    for project in (kit / "client", kit / "compat", source):
        python("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
               "--wheel-dir", str(folder), str(project))  # fmt: skip
    # From "estimator_kit-", "estimator_kit_client-" and "estimator_kit_compat-".
    return sorted(folder.glob("*.whl"))


def install(wheel, folder):
    python("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel))
    return folder


def names_in(wheel):
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def test_the_wheel_holds_everything(wheels, tmp_path):
    installed = install(wheels[0], tmp_path / "installed")
    # -P would keep the working directory out of the path, but is newer than Python 3.9.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    code = (
        "import estimator_kit, feature_specs, pathlib\n"
        "from estimator_kit.commands import train\n"
        f"assert str(pathlib.Path(estimator_kit.__file__)).startswith({str(installed)!r})\n"
        "folder = pathlib.Path(feature_specs.__file__).parent / 'catalog'\n"
        "print(sorted(p.name for p in folder.iterdir()))\n"
    )
    done = python("-c", code, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[-1] == "['ads.yaml', 'adult.yaml', 'bike_sharing.yaml']"
    script = installed / "bin" / "estimator-kit"
    assert "--flagfile" in python(str(script), "--help", cwd=tmp_path, env=environment).stdout


def test_the_wheel_of_the_client_asks_without_the_kit(wheels, tmp_path):
    kit, client, _ = map(names_in, wheels)
    assert not kit & client  # So both can be installed and removed independently.
    modules = {path.name for path in (ROOT / "estimator_kit" / "client").glob("*.py")}
    version = wheels[1].name.split("-")[1]
    assert version == wheels[0].name.split("-")[1]
    assert {name for name in client if ".dist-info/" not in name} == {
        f"estimator_kit_client/{name}" for name in modules
    }
    of_kit = {name for name in kit if name.startswith("estimator_kit/client/")}
    assert of_kit == {f"estimator_kit/client/{name}" for name in modules}
    installed = install(wheels[1], tmp_path / "installed")
    metadata = (installed / f"estimator_kit_client-{version}.dist-info" / "METADATA").read_text()
    names = re.findall(r"^Requires-Dist: ([\w-]+)>=[\d.]+$", metadata, re.M)
    assert sorted(names) == ["grpcio", "numpy", "protobuf"]
    assert metadata.count("Requires-Dist") == 3
    alone.check(installed, tmp_path, names)


def test_the_wheel_of_compat_runs_an_old_program_without_the_kit(wheels, tmp_path):
    kit, _, compat = map(names_in, wheels)
    assert not kit & compat
    folder = ROOT / "estimator_kit" / "compat"
    modules = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    assert {name for name in compat if ".dist-info/" not in name} == {
        f"estimator_kit_compat/{name}" for name in modules
    }
    assert {name for name in kit if name.startswith("estimator_kit/compat/")} == {
        f"estimator_kit/compat/{name}" for name in modules
    }
    installed = install(wheels[2], tmp_path / "installed")
    (tmp_path / "program.py").write_text(
        "from __future__ import print_function\n"
        "import sys\n"
        "import tensorflow as tf\n"
        "from tensorflow.contrib import cluster_resolver\n"
        "print(tf.placeholder(tf.float32, []).shape, tf.estimator.tpu.TPUEstimator.__name__)\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('estimator_kit', 'yaml')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = ("-m", "estimator_kit_compat", "--tf1", "program.py")
    done = python(*command, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[-2:] == ["() TPUEstimator", "[]"]
