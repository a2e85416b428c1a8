import html
import json
import re
import shutil
import subprocess
import zlib

import numpy as np
import pytest

pytest.importorskip("mujoco")
import ploff
from benchmark_cases import InThisProcess, hopper_log, small_suite
from ploff import storage
from ploff.benchmark import run
from ploff.benchmark.plan import make_plan
from ploff.benchmark.schedule import run_jobs
from ploff.benchmark.store import Store
from ploff.errors import PloffError
from ploff.metric_training import load_metric
from ploff.report import charts, gather, render_page, states, write_report
from ploff.report.charts import Axis, Line, line_chart

PARTS = ("runs", "scores", "curves", "values", "distance", "metric", "noise", "states")
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
      wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      colour: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
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
    tiny = {"settings": {"hidden": [16, 16]}}
    suite = small_suite(hopper_log(folder), methods={"bc": tiny, "ploff": tiny})
    assert run_jobs(make_plan(suite).jobs, InThisProcess(folder), Store(folder), quiet=True) == []
    storage.write_json(folder / run.SUITE, run.to_json(suite))
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
        assert len(seen["charts"]) >= 7
        assert all(width > 250 and height > 150 for width, height in seen["charts"])
        assert seen["curves"] > len(seen["charts"])
        assert len(seen["pictures"]) == states.ROWS * (states.NEIGHBOURS + 1)
        assert all(complete and width == states.SIZE for complete, width in seen["pictures"])
        assert all(rows >= 2 for rows in seen["tables"])
        assert seen["wide"] <= 0, "the page is wider than its window"
        for text in (
            "hopper-small",
            "ploff",
            "interquartile mean",
            "bound 1/(1 − γ)",
            "noise on the action",
            "dΨ =",
        ):
            assert text in seen["text"], text
    dark = in_browser(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert light["desk"]["colour"] == "rgb(255, 255, 255)"
    assert dark["desk"]["colour"] == "rgb(21, 23, 26)"


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


def test_what_failed_is_told_with_its_reason(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    key = next(key for key, record in store.records.items() if record["kind"] == "run")
    store.append({**store.records[key], "status": "failed", "reason": "a cable <was> pulled"})
    shown = render_page(gather([store.folder]), pictures=False)
    assert "a cable &lt;was&gt; pulled" in shown


def test_a_log_that_is_gone_leaves_the_rest_of_the_page(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("config.json"):
        config = storage.read_json(path)
        config["dataset"] = str(tmp_path / "gone.npz")
        storage.write_json(path, config)
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
    learned = load_metric(next(folder.glob("stages/*/metric-*")))
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


def test_a_picture_is_a_png_of_its_pixels():
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    written = states.png(pixels)
    start = written.index(b"IDAT") + 4
    length = int.from_bytes(written[start - 8 : start - 4])
    lines = zlib.decompress(written[start : start + length])
    assert lines == b"\0" + pixels[0].tobytes() + b"\0" + pixels[1].tobytes()


def test_a_curve_goes_through_its_points():
    drawn = line_chart(
        "t", [Line("a", np.array([0.0, 10.0]), np.array([0.0, 1.0]))], x_label="x", y_label="y", zero=True
    )
    path = re.search(r'class="curve c0" d="M([\d. ]+)L([\d. ]+)"', drawn)
    (x_1, y_1), (x_2, y_2) = (map(float, group.split()) for group in path.groups())
    assert x_1 < x_2
    assert y_1 > y_2
    assert y_1 == charts.HEIGHT - charts.BOTTOM  # an axis that begins at zero


def test_a_limit_far_above_the_curve_is_still_in_the_picture():
    line = Line("a", np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    drawn = line_chart("t", [line], x_label="x", y_label="y", limit=("bound", 100.0))
    height = float(re.search(r'class="limit" d="M[\d.]+ ([\d.]+)H', drawn)[1])
    assert charts.TOP <= height <= charts.HEIGHT - charts.BOTTOM


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0, 1, False), (-3, 250, False), (5, 5, False), (1e-6, 1e7, True), (3, 4, True)]
)
def test_an_axis_marks_some_round_values_inside_its_ends(low, high, log):
    axis = Axis.around("a", [np.array([low, high], float)], log=log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(axis.low - 1e-9 <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    assert all(0 <= share <= 1 for share in axis.share(np.array([low, high], float)))


def test_numbers_are_written_as_people_do():
    shown = [charts.number(value) for value in (0, 0.25, 100, 20_000, 500_000, 1e7, 2.5e-5)]
    assert shown == ["0", "0.25", "100", "20k", "500k", "10⁷", "2.5·10⁻⁵"]


def test_names_cannot_break_the_page():
    drawn = line_chart(
        "<b>",
        [Line("<i>", np.zeros(2), np.zeros(2)), Line("&", np.zeros(2), np.zeros(2))],
        x_label="<",
        y_label=">",
    )
    assert "<b>" not in drawn
    assert "<i>" not in drawn
