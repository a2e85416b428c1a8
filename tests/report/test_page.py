import base64
import dataclasses
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("mujoco")
import imageio.v3 as imageio

import ploff
from experiment_cases import small_suite
from ploff.experiments.run_suite import run_suite
from ploff.experiments.store import Store
from ploff.metric.train import load_metric
from ploff.report import gather, render_page, sections, states, write_report
from ploff.transitions import Origin
from ploff.utils import files
from ploff.utils.errors import PloffError

PARTS = ("headline", "runs", "settings", "scores", "curves", "values", "distance", "metric", "noise", "states")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """
<script>
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    const box = element => { const r = element.getBoundingClientRect(); return [r.width, r.height]; };
    found[frame.id] = {
      parts: [...page.querySelectorAll("section")].map(s => [s.id, s.querySelector("h2").textContent, ...box(s)]),
      charts: [...page.querySelectorAll(".chart > svg")].map(box),
      curves: page.querySelectorAll("path.curve").length,
      pictures: [...page.querySelectorAll(".states img")].map(i => [i.complete, i.naturalWidth]),
      tables: [...page.querySelectorAll("table")].map(t => t.rows.length),
      smallest: Math.min(...[...page.querySelectorAll(".chart > svg text")].map(
        t => parseFloat(frame.contentWindow.getComputedStyle(t).fontSize) * t.getScreenCTM().a || 99)),
      wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      color: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
      text: page.body.innerText,
    };
  }
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out);
});
</script>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small suite that was run to its end."""
    folder = tmp_path_factory.mktemp("suite")
    log = folder / "hopper-small.npz"
    ploff.save(ploff.collect("hopper", transitions=400), log)
    tiny = {"settings": {"hidden_sizes": [16, 16]}}
    suite = small_suite(log, methods={"bc": tiny, "ploff": tiny})
    assert run_suite(suite, folder, serial=True, quiet=True).failures == []
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return write_report([folder], folder / "report.html").read_text()


def in_browser(page, tmp_path, *options):
    """What a browser makes of the page, in a window and in one as narrow as a phone's."""
    frames = "".join(
        f'<iframe id="{name}" style="width:{width}px;height:900px" srcdoc="{html.escape(page)}"></iframe>'
        for name, width in (("desk", 1200), ("phone", 390))
    )
    host = f'<!doctype html><meta charset="utf-8"><body>{frames}{PROBE}</body>'  # else the browser guesses
    (tmp_path / "host.html").write_text(host, encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", *options,
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "host.html").as_uri(),
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=240, check=True).stdout
    return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)[1]))


def test_the_page_needs_nothing_beside_itself(page):
    assert "<script" not in page
    assert "@import" not in page
    for address in re.findall(r'(?:src|href)\s*=\s*"([^"]*)"|url\(([^)]*)\)', page):
        assert "".join(address).startswith(("data:", "#"))


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_shows_every_part_on_a_desk_and_on_a_phone_light_and_dark(page, tmp_path):
    light = in_browser(page, tmp_path, "--blink-settings=preferredColorScheme=1")
    for seen in light.values():
        assert [part[0] for part in seen["parts"]] == list(PARTS)
        assert all(width > 300 and height > 60 for *_, width, height in seen["parts"])
        assert seen["smallest"] >= 11, "text is too small to read"
        assert len(seen["charts"]) >= 7
        assert all(width > 250 and height > 150 for width, height in seen["charts"])
        assert seen["curves"] > len(seen["charts"])
        assert len(seen["pictures"]) == states.ROWS * (states.NEIGHBORS + 1)
        assert all(complete and width == states.SIZE for complete, width in seen["pictures"])
        assert all(rows >= 2 for rows in seen["tables"])
        assert seen["wide"] <= 0, "the page is wider than its window"
        for text in (
            "hopper-small",
            "ploff",
            "interquartile mean",
            "bound: 100",
            "noise on the action",
            "dΨ =",
        ):
            assert text in seen["text"], text
    dark = in_browser(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert light["desk"]["color"] == "rgb(255, 255, 255)"
    assert dark["desk"]["color"] == "rgb(21, 23, 26)"


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_prints_the_page(page, tmp_path):
    (tmp_path / "page.html").write_text(page)
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        f"--print-to-pdf={tmp_path / 'page.pdf'}", (tmp_path / "page.html").as_uri(),
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, timeout=240, check=True)
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_runs_of_ploff_train_are_told_too_and_like_ones_are_told_apart(folder):
    story = gather([folder / "runs"])
    assert {group.column for group in story.groups} == {"bc", "ploff"}
    both = gather([folder / "runs", folder])
    assert both.columns == ["bc", "ploff", "bc (2)", "ploff (2)"]


def test_a_method_has_one_color_in_every_chart_and_table(folder):
    story = gather([folder])
    assert story.styles == {"bc": "c0", "ploff": "c1"}
    shown = render_page(story, pictures=False)
    for column, style in story.styles.items():
        swatches = re.findall(rf'<i class="swatch (c\d)"></i>{column}<', shown)
        curves = re.findall(rf'<path class="curve (c\d)" d="M0 4H22"/></svg>{column}<', shown)
        assert set(swatches) == set(curves) == {style}
        assert len(swatches) >= 3
    metric = shown[shown.index('id="metric"') :]
    assert not re.search(r'class="(?:curve|whisker|box) c\d', metric)


def test_what_failed_is_told_with_its_reason(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    key = next(key for key, record in store.records.items() if record["kind"] == "agent")
    store.append({**store.records[key], "status": "failed", "reason": "a cable <was> pulled"})
    shown = render_page(gather([store.folder]), pictures=False)
    assert "a cable &lt;was&gt; pulled" in shown


def test_a_part_that_has_nothing_to_tell_is_left_out(folder):
    whole = gather([folder])
    cloned = dataclasses.replace(whole, groups=[g for g in whole.groups if g.column == "bc"], metrics=[])
    shown = render_page(cloned, pictures=False)
    assert re.findall(r'<section id="(\w+)">', shown) == ["headline", "runs", "settings", "scores", "curves"]
    assert re.findall(r'href="#(\w+)"', shown) == ["headline", "runs", "settings", "scores", "curves"]


def test_each_method_has_its_own_bound_of_q_in_its_own_color(folder):
    def with_bounds(bounds):
        groups = []
        for group, bound in zip(gather([folder]).groups, bounds, strict=True):
            rows = [{"step": 10.0, "max_q": 5.0, "mean_q": 1.0, "q_bound": bound}]
            seeds = [dataclasses.replace(result, history=rows) for result in group.seeds]
            groups.append(dataclasses.replace(group, seeds=seeds))
        shown = sections.values(dataclasses.replace(gather([folder]), groups=groups))
        return re.findall(r'class="limit ?(c?\d?)" d="M0 4H22"/></svg>([^<]+)<', shown)

    assert with_bounds([100.0, 100.0]) == [("", "bound: 100")]
    assert with_bounds([100.0, 640.0]) == [("c0", "bound of bc: 100"), ("c1", "bound of ploff: 640")]


def test_the_states_of_a_table_are_shown_as_rows_with_the_names_of_its_columns(folder, tmp_path):
    data = dataclasses.replace(ploff.load(next(folder.glob("*.npz"))), origin=Origin(name="plant"))
    ploff.save(data, tmp_path / "plant.csv")
    story = gather([folder])
    bounds = {"action_low": -1.0, "action_high": 1.0}
    metric = dataclasses.replace(story.metrics[0], dataset=str(tmp_path / "plant.csv"), reading=bounds)
    shown = sections.states(dataclasses.replace(story, metrics=[metric]))
    assert "<th>observation_10</th>" in shown  # as its file has it
    assert shown.count("<td>state</td>") == states.ROWS


def test_a_log_that_is_gone_leaves_the_rest_of_the_page(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("config.json"):
        config = files.read_record(path)
        config["dataset"] = str(tmp_path / "gone.npz")
        files.write_record(path, config)
    shown = render_page(gather([tmp_path / "copy"]))
    assert "the log is not to be had here" in shown
    assert "states cannot be drawn here" in shown
    assert 'id="curves"' in shown


def test_a_folder_without_runs_is_an_error_of_one_line(tmp_path):
    with pytest.raises(PloffError, match="no runs in"):
        gather([tmp_path])
    with pytest.raises(PloffError, match="no folder"):
        gather([tmp_path / "absent"])


def test_nearest_states_are_those_of_a_slow_search_over_other_episodes(folder):
    data = ploff.load(next(folder.glob("*.npz")))
    learned = load_metric(next(folder.glob("metrics/*/metric.eqx")).parent)
    rows = states.nearest_states(learned, data, rows=2, count=3)
    distances = learned.state_distances(np.asarray(data.observations[: len(data)]))
    episode = [data.locate(row)[0] for row in range(len(data))]
    for (first, zero), *others in rows:
        assert zero == 0
        best = {}
        for other in range(len(data)):
            if episode[other] != episode[first]:
                best[episode[other]] = min(best.get(episode[other], np.inf), distances[first, other])
        expected = sorted(best.values())[:3]
        assert [distance for _, distance in others] == pytest.approx(expected, rel=1e-3)


def test_a_picture_shows_its_states_pixels(folder):
    data = ploff.load(next(folder.glob("*.npz")))
    learned = load_metric(next(folder.glob("metrics/*/metric.eqx")).parent)
    rows = states.draw_states(learned, data)
    encoded = [picture.address.partition(",")[2] for row in rows for picture in row]
    pixels = [imageio.imread(base64.b64decode(image)) for image in encoded]
    assert all(np.array_equal(*both) for both in zip(pixels, (p.pixels for row in rows for p in row), strict=True))
    assert all(image.shape[:2] == (states.SIZE, states.SIZE) for image in pixels)
    assert len({image.tobytes() for image in pixels}) == len(pixels)
