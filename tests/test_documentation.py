"""What the documents say is still true: their Python runs, the public names exist, the help answers."""

import pathlib
import re
import subprocess
import sys

import pytest

import ploff

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS.search(page.read_text())], ids=lambda p: p.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    code = "\n".join(BLOCKS.findall(page.read_text()))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def anchors(page: pathlib.Path) -> set[str]:
    """What a link may name behind #, as the documentation's builder makes it of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere_that_the_built_pages_have_too(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" not in target:
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name} links to {target}"
            assert page.parent == ROOT or path.is_relative_to(ROOT / "docs"), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


def test_every_public_name_is_there():
    for name in ploff.__all__:
        assert getattr(ploff, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ploff.nothing  # noqa: B018


def test_the_code_map_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in (ROOT / "src" / "ploff").iterdir():
        if path.suffix == ".py" and path.name != "__init__.py":
            assert path.name in text, f"{path.name} is missing in the code map"
        elif path.is_dir() and (path / "__init__.py").exists():
            assert f"{path.name}/" in text, f"{path.name}/ is missing in the code map"


def test_the_help_imports_nothing_heavy():
    code = "import sys, ploff.cli; print([m for m in ('jax', 'gymnasium', 'faiss') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
