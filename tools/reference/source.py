"""Modules of the kit, read as text: docstrings, classes, and the fields of their parameters.

    module = Module("estimator_kit.models.din")
    module.docstring
    fields_of(*module.find("DINModel"))

It runs no code of a module, so it reads those that import TensorFlow, too. A type is written as
people say it: `Annotated[int, Field(ge=1)]` is "integer, 1 or more". Names of types are followed
through imports and assignments. A form of a type that it does not know is an error.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, Optional, Union

from feature_specs.meaning import aspects
from tools.reference.docstrings import Docstring, code

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

_PLAIN = {
    "Any": "any value",
    "bool": "true or false",
    "float": "number",
    "int": "integer",
    "str": "string",
}
_BOUNDS = {"ge": "{} or more", "gt": "above {}", "le": "at most {}", "lt": "below {}"}


@dataclasses.dataclass(frozen=True)
class FieldText:
    """A field of a class of parameters.

    Attributes:
      default: as Python code; None if it has to be given.
      meaning: what the docstring of its class, or of the nearest base, says of it; or "".
      changes: the aspects that it declares.
    """

    name: str
    type: str
    default: Optional[str]
    meaning: str
    changes: aspects.Changes


class Module:
    """A module of the kit by its dotted name."""

    def __init__(self, name: str):
        path = ROOT.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        self.name = name
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.docstring = Docstring.parse(ast.get_docstring(self.tree, clean=False))

    @staticmethod
    @functools.cache
    def load(name: str) -> Module:
        return Module(name)

    def find(self, name: str) -> tuple[Module, Any]:
        """What a name of this module stands for: (its module, the statement that makes it).

        Raises:
          KeyError: nothing in this module has the name.
        """
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return self, node
            if isinstance(node, ast.Assign) and _is_target(node.targets[0], name):
                return self, node.value
            if isinstance(node, ast.AnnAssign) and _is_target(node.target, name) and node.value:
                return self, node.value
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module:
                        return self._imported(node.module, alias.name)
        raise KeyError(f"{self.name} has no {name}")

    def _imported(self, module: str, name: str) -> tuple[Module, Any]:
        if ROOT.joinpath(*module.split("."), f"{name}.py").exists():
            return Module.load(f"{module}.{name}"), None
        return Module.load(module).find(name)

    def table(self, name: str) -> dict[str, tuple[Module, Any]]:
        """A dict of names to classes, such as `MODELS`: {key: `find` of its value}."""
        _, node = self.find(name)
        assert isinstance(node, ast.Dict), f"{self.name}.{name} is not written as a dict"
        return {
            ast.literal_eval(key): self.resolve(value)
            for key, value in zip(node.keys, node.values)
            if key is not None
        }

    def functions(self) -> dict[str, Docstring]:
        """The docstrings of the functions of this module, by name."""
        return {n.name: docstring_of(n) for n in self.tree.body if isinstance(n, ast.FunctionDef)}

    def resolve(self, node: ast.expr) -> tuple[Module, Any]:
        """`find` of a name or of `module.name`."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, _ = self.find(node.value.id)
            return module.find(node.attr)
        assert isinstance(node, ast.Name), ast.dump(node)
        return self.find(node.id)


def _is_target(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def docstring_of(node: Union[ast.ClassDef, ast.FunctionDef]) -> Docstring:
    return Docstring.parse(ast.get_docstring(node, clean=False))


def bases(module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    """A class and those that it inherits from, as far as they are the kit's."""
    yield module, node
    for base in node.bases:
        nested = isinstance(base, ast.Attribute) and base.attr == "Params"
        name = base.value if isinstance(base, ast.Attribute) and nested else base
        try:
            home, found = module.find(name.id if isinstance(name, ast.Name) else "")
            if nested:
                home, found = params_of(home, found)
        except (KeyError, FileNotFoundError):
            continue  # A class of a library.
        if isinstance(found, ast.ClassDef):
            yield from bases(home, found)


def params_of(module: Module, model: ast.ClassDef) -> tuple[Module, ast.ClassDef]:
    """The class of a model's parameters: its `Params`, or the ones of the nearest base."""
    for home, node in bases(module, model):
        for item in node.body:
            if isinstance(item, ast.ClassDef) and item.name == "Params":
                return home, item
            if isinstance(item, ast.Assign) and _is_target(item.targets[0], "Params"):
                return home.resolve(item.value)
    raise KeyError(f"{model.name} has no Params")


def fields_of(module: Module, node: ast.ClassDef) -> list[FieldText]:
    """All fields of a class of parameters, its own first, then the fields of its bases."""
    found: dict[str, tuple[Module, ast.AnnAssign]] = {}
    meanings: dict[str, str] = {}
    changes: dict[str, aspects.Changes] = {}
    for home, each in bases(module, node):
        for name, text in docstring_of(each).attributes.items():
            meanings.setdefault(name, text)
        for item in each.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                if not item.target.id.startswith("_") and not _is_class_var(item.annotation):
                    found.setdefault(item.target.id, (home, item))
                    for declared in _declared(home, item.annotation):
                        changes.setdefault(item.target.id, declared)
    fields = []
    for name, (home, item) in found.items():
        bounds, default = _value(item.value)
        words = [type_text(home, item.annotation), *bounds]
        text, declared = meanings.get(name, ""), changes.get(name, aspects.changes("weights"))
        fields.append(FieldText(name, ", ".join(words), default, text, declared))
    return fields


def _declared(module: Module, annotation: ast.expr) -> Iterator[aspects.Changes]:
    """What the names in an annotation declare, such as `TRAINING`, or `Group`, which has it."""
    for node in ast.walk(annotation):
        home, found = module, node
        if isinstance(node, ast.Name):
            with contextlib.suppress(KeyError, FileNotFoundError):  # Not a name of the kit.
                home, found = module.find(node.id)
        if isinstance(found, ast.Call) and ast.unparse(found.func) == "aspects.changes":
            text, named = ast.literal_eval(found.args[0]), bool(found.keywords)
            yield aspects.changes(text, named=named)
        elif found is not node and isinstance(found, ast.Subscript):
            yield from _declared(home, found)


def _is_class_var(annotation: ast.expr) -> bool:
    return "ClassVar" in ast.unparse(annotation)


def _value(node: Optional[ast.expr]) -> tuple[list[str], Optional[str]]:
    """(bounds, default) of what is assigned to a field."""
    if node is None:
        return [], None
    if _is_field(node):
        assert isinstance(node, ast.Call)
        default = node.args[0] if node.args else None
        default = next((k.value for k in node.keywords if k.arg == "default"), default)
        return _bounds(node), None if default is None else _yaml(default)
    return [], _yaml(node)


def _yaml(node: ast.expr) -> str:
    """A default as a spec or a flag writes it."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
    return yaml_text(value)


def yaml_text(value: Any) -> str:
    """A value in YAML, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(yaml_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_text(v)}" for key, v in value.items()) + "}"
    return '""' if value == "" else str(value)


def _is_field(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("Field", "pydantic.Field")


def _bounds(call: ast.Call) -> list[str]:
    given = {k.arg: k.value for k in call.keywords if k.arg}
    words = [
        text.format(ast.unparse(given[key]).replace(" ", "").replace("**", "^"))
        for key, text in _BOUNDS.items()
        if key in given
    ]
    least = given.get("min_length")
    return words if least is None else [*words, f"{ast.unparse(least)} items or more"]


def type_text(module: Module, node: ast.expr) -> str:
    """A type in words.

    Raises:
      ValueError: its form is not known here.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return type_text(module, ast.parse(node.value, mode="eval").body)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = ast.unparse(node)
        if name in _PLAIN:
            return _PLAIN[name]
        home, found = module.resolve(node)
        return code(name) if isinstance(found, ast.ClassDef) else type_text(home, found)
    if isinstance(node, ast.Subscript):
        kind = ast.unparse(node.value).rpartition(".")[2]
        inside = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if kind == "Annotated":
            bounds = [
                word
                for item in inside[1:]
                if _is_field(item) and isinstance(item, ast.Call)
                for word in _bounds(item)
            ]
            return ", ".join([type_text(module, inside[0]), *bounds])
        if kind == "Optional":
            return f"{type_text(module, inside[0])}, or null"
        if kind == "Union":
            return " or ".join(type_text(module, item) for item in inside)
        if kind == "Literal":
            return one_of([ast.literal_eval(item) for item in inside])
        if kind in ("tuple", "list", "Sequence"):
            return f"list of {plural(type_text(module, inside[0]))}"
        if kind in ("dict", "Mapping"):
            return f"mapping to {plural(type_text(module, inside[1]))}"
    raise ValueError(f"{module.name}: unknown form of a type: {ast.unparse(node)}")


def one_of(values: list[Any]) -> str:
    return (" or " if len(values) < 3 else ", ").join(code(yaml_text(value)) for value in values)


def plural(text: str) -> str:
    first, comma, rest = text.partition(",")
    return f"{first}s{comma}{rest}" if first in ("integer", "number", "string") else text
