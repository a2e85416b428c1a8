"""The house: imports point one way, tests mirror the package, nothing is large or written twice."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ploff"
# From what everything uses to what uses everything: a module imports from its own line and from those above it.
STORY = (
    ("utils",),
    ("actions", "tasks", "normalizer", "schema", "origin", "transitions", "legal_actions", "networks"),
    ("datasets",),
    ("environments",),
    ("training",),
    ("relevance",),
    ("metric",),
    ("neighbors",),
    ("agents",),
    ("judging",),
    ("experiments",),
    ("theory",),
    ("report",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(STORY) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
# Tests of documents, of scripts, and of the house itself stand for no module.
OTHER_TESTS = {"test_architecture.py", "test_documentation.py", "test_scores.py", "test_faults.py"}


def part_of(path: pathlib.Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: pathlib.Path) -> set[str]:
    """The parts of ploff that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ploff":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ploff."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("ploff.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_up_the_story(path):
    own = LEVEL[part_of(path)]
    for name in imports_of(path):
        assert LEVEL[name] <= own, f"{path.name} imports {name}, which comes later in the story"


def test_every_part_has_its_place_in_the_story():
    assert {part_of(path) for path in MODULES} == set(LEVEL)


def test_tests_mirror_the_package():
    for test in (ROOT / "tests").rglob("test_*.py"):
        if test.name in OTHER_TESTS:
            continue
        place = SOURCE / test.relative_to(ROOT / "tests").parent
        name = test.stem.removeprefix("test_")
        assert (place / f"{name}.py").exists() or place.name == name, f"{test} stands for no module"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 50, f"{node.name} has {length} lines"
