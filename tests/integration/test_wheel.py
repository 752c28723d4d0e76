"""The built wheel works from outside the source tree."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.ci
def test_the_wheel_holds_everything(tmp_path):
    def python(*arguments, **kwargs):
        return subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True, text=True, timeout=300,
            **kwargs,
        )  # fmt: skip

    source = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    python("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
           "--wheel-dir", str(tmp_path), str(source))  # fmt: skip
    (wheel,) = tmp_path.glob("estimator_kit-*.whl")
    installed = tmp_path / "installed"
    python("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel))
    # -P would keep the working directory out of the path, but is newer than Python 3.9.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    code = (
        "import estimator_kit, feature_specs, pathlib\n"
        "from estimator_kit import experiment\n"
        f"assert str(pathlib.Path(estimator_kit.__file__)).startswith({str(installed)!r})\n"
        "folder = pathlib.Path(feature_specs.__file__).parent / 'catalog'\n"
        "print(sorted(p.name for p in folder.iterdir()))\n"
    )
    done = python("-c", code, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[-1] == "['ads.yaml', 'adult.yaml', 'bike_sharing.yaml']"
    script = installed / "bin" / "estimator-kit"
    assert "--flagfile" in python(str(script), "--help", cwd=tmp_path, env=environment).stdout
