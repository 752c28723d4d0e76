"""Which modules are the user's code of a model, and when their digest is another one."""

from __future__ import annotations

import importlib
import logging
import shutil
import sys
import types

import pytest

from estimator_kit.config import code_digests

pytestmark = pytest.mark.no_tensorflow

# A model whose code is in many modules. The ones in STRANGERS are not its code.
FILES = {
    "shop/__init__.py": "from shop import registry\n",
    "shop/registry.py": "",
    "shop/models/__init__.py": "",
    "shop/models/tower.py": "from . import layers\nfrom ..math import norms as n\n"
                            "from shop.models.base import Base\nimport no_such_module\n"
                            "class Tower(Base):\n    def logits(self):\n"
                            "        from shop.lazy import late\n        import sibling\n",
    "shop/models/base.py": "class Base:\n    pass\n",
    "shop/models/layers.py": "import shop.math.sums as s\n",
    "shop/math/norms.py": "import json\nimport installed\ndef f():\n    import tensorflow\n",
    "shop/math/sums.py": "from shop.models import layers\n",
    "shop/lazy/__init__.py": "",
    "shop/lazy/late.py": "def broken(:\n",
    "sibling.py": "",
}  # fmt: skip
STRANGERS = {
    "shop/models/other.py": "x = 1\n", "other.py": "x = 1\n",
    "lib/python3/site-packages/installed/__init__.py": "x = 1\n",
}  # fmt: skip


def written(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def forget():
    for name in list(sys.modules):
        if name.partition(".")[0] in ("shop", "sibling", "other", "installed", "mine"):
            del sys.modules[name]


@pytest.fixture
def at(monkeypatch):
    """A function: the class of the model, imported from a folder or a zip file."""

    def find(place, model="shop.models.tower:Tower"):
        forget()
        monkeypatch.syspath_prepend(str(place / "lib/python3/site-packages"))
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.setitem(sys.modules, "no_such_module", types.ModuleType("no_such_module"))
        module, _, name = model.partition(":")
        return model, getattr(importlib.import_module(module), name)

    yield find
    forget()


def test_the_modules_that_a_model_imports(tmp_path, at):
    written(tmp_path, {**FILES, **STRANGERS})
    found = code_digests.sources(*at(tmp_path))
    # shop/math has no __init__.py, so Python runs nothing for it.
    names = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES}
    assert {*found} == names
    assert found["shop.lazy.late"] == b"def broken(:\n"
    # What is imported inside a function is not run.
    assert not {"shop.lazy", "shop.lazy.late", "sibling"} & {*sys.modules}


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_of_them_counts(tmp_path, at, name):
    written(tmp_path, {**FILES, **STRANGERS})
    before = code_digests.of_model(*at(tmp_path))
    with open(tmp_path / name, "a") as file:
        file.write("# changed\n")
    assert code_digests.of_model(*at(tmp_path)) != before


def test_other_code_and_the_folder_do_not_count(tmp_path, at):
    for folder in ("a", "b"):
        written(tmp_path / folder, {**FILES, **STRANGERS})
    before = code_digests.of_model(*at(tmp_path / "a"))
    written(tmp_path / "b", dict.fromkeys(STRANGERS, "x = 2\n"))
    assert code_digests.of_model(*at(tmp_path / "b")) == before


def test_a_model_that_imports_a_sibling_and_one_of_another_name(tmp_path, at):
    written(tmp_path, {"mine.py": "from sibling import Tower\n",
                       "sibling.py": "class Tower:\n    pass\n"})  # fmt: skip
    assert {*code_digests.sources(*at(tmp_path, "mine:Tower"))} == {"mine", "sibling"}
    assert {*code_digests.sources(*at(tmp_path, "sibling:Tower"))} == {"sibling"}


def test_an_installed_model_counts_with_its_package_alone(tmp_path, at):
    base = "lib/python3/site-packages"
    written(tmp_path, {**STRANGERS, **{f"{base}/{name}": text for name, text in FILES.items()}})
    found = code_digests.sources(*at(tmp_path))
    assert {*found} == {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in FILES if name != "sibling.py"
    }  # fmt: skip


def test_a_model_of_the_kit_has_no_code_of_a_user():
    assert code_digests.sources("estimator_kit.errors:ConfigError", ValueError) == {}


def test_a_zip_file(tmp_path, at):
    written(tmp_path / "plain", {**FILES, "installed.py": "", "shop/lazy/late.py": ""})
    shutil.make_archive(str(tmp_path / "code"), "zip", tmp_path / "plain")
    plain = code_digests.sources(*at(tmp_path / "plain"))
    assert code_digests.sources(*at(tmp_path / "code.zip")) == plain


def test_a_script_and_a_module_without_a_file(tmp_path, monkeypatch, caplog):
    code_digests._warn.cache_clear()
    (tmp_path / "sibling.py").write_text("")
    (tmp_path / "script.py").write_text("import sibling\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    script = types.ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    kind = type("Tower", (), {"__module__": "__main__"})
    found = code_digests.sources("__main__:Tower", kind)
    assert found == {"__main__": b"import sibling\n", "sibling": b""}
    del script.__file__  # As in a notebook.
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        for _ in range(2):
            assert code_digests.sources("__main__:Tower", kind) == {"__main__": b""}
    assert caplog.messages == [
        "the module __main__ of --model has no source file, so changes of its code are not "
        "noticed. Put the code into a file that Python can import."
    ]
