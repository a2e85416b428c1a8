"""What the documents say is true: their Python runs, links lead somewhere, generated pages equal the code."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

import ploff
from ploff.agents.ploff import PloffConfig
from ploff.agents.td3_off import TD3OffConfig
from ploff.experiments.config import AgentTraining
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
MANUAL = [page for page in PAGES if not {DOCS / "log", DOCS / "results"} & set(page.parents)]
GENERATED = ("api.md", "command-line.md", "configuration.md")
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```|`[^`]+`", re.MULTILINE | re.DOTALL)
HISTORY = re.compile(
    r"\bno longer\b|\bformerly\b|\bpreviously\b|\bin the past\b|\bwe (?:have )?tried\b|(?<!what )\bwas tried\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bbe )\bused to\b|\bearlier versions?\b|\b(?:was|were|been) renamed\b|\bsince then\b",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|tmp/wt)\b")


def name_of(page: pathlib.Path) -> str:
    """A page as tests call it."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS.search(page.read_text())], ids=name_of)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    code = "\n".join(BLOCKS.findall(page.read_text()))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def anchors(page: pathlib.Path) -> set[str]:
    """What a link may name behind #, as the documentation's builder makes it of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere_that_the_built_pages_have_too(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", CODE.sub("", page.read_text())):
        if "://" not in target:
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name} links to {target}"
            assert page.parent == ROOT or path.is_relative_to(DOCS), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


def test_every_page_is_in_the_navigation_and_every_entry_of_it_exists():
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^ +- .*: (\S+\.md)$", text[text.index("nav:") :], re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_the_research_log_lists_all_of_its_pages():
    index = (DOCS / "log" / "index.md").read_text()
    for page in (DOCS / "log").glob("2*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ")
        assert f"[{title}]({page.name})" in index


def test_generated_pages_are_what_the_code_gives(tmp_path):
    subprocess.run([sys.executable, DOCS / "generate_reference.py", tmp_path], check=True)
    assert sorted(page.name for page in tmp_path.iterdir()) == sorted(GENERATED)
    for name in GENERATED:
        message = f"{name} is not up to date; `python docs/generate_reference.py` makes it anew"
        assert (tmp_path / name).read_text() == (DOCS / "reference" / name).read_text(), message


@pytest.mark.parametrize("page", MANUAL, ids=name_of)
def test_the_manual_tells_no_history(page):
    found = HISTORY.search(" ".join(page.read_text().split()))
    assert found is None, f"{name_of(page)}: {found.group()!r} belongs into the research log"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_place_on_somebodys_machine(page):
    found = MACHINE_PATH.search(page.read_text())
    assert found is None, f"{name_of(page)}: {found.group()}"


def test_every_departure_of_a_default_from_the_printed_form_has_its_row():
    text = (DOCS / "explanation" / "deviations.md").read_text()
    printed = " ".join(line.rsplit("|", 2)[1] for line in text.splitlines() if line.startswith("| "))
    pairs = (
        (PloffConfig(), PloffConfig.paper()),
        (TD3OffConfig(), TD3OffConfig.paper()),
        (MetricConfig(), MetricConfig.paper()),
        (MetricConfig(), MetricConfig.paper(estimator="literal")),
        (MetricTraining(), MetricTraining.paper()),
        (AgentTraining(), AgentTraining.of("paper")),
    )
    for default, paper in pairs:
        for field in dataclasses.fields(paper):
            value = getattr(paper, field.name)
            if value != getattr(default, field.name):
                shown = f"{value:g}" if isinstance(value, float) else str(value).lower()
                assert f"`{field.name}={shown}`" in printed, f"{type(paper).__name__}.{field.name} has no row"


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
