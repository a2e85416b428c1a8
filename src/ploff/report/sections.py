"""The parts of the page, each from the story to HTML."""

import html
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ploff import datasets
from ploff.experiments import statistics, tables
from ploff.experiments.run_folder import SeedResult
from ploff.experiments.tables import Table
from ploff.report import states as pictures
from ploff.report.charts import Limit, Line, box_chart, line_chart
from ploff.report.figures.metric import NOISE_SIZES, UNITS, noise_distances
from ploff.report.gather import Group, ReportData, TaskMetric, last_rows
from ploff.report.pieces import charts_or_nothing, note, table_of
from ploff.report.states import state_table
from ploff.training.loop import Row
from ploff.transitions import Transitions
from ploff.utils.errors import PloffError

PROFILE_POINTS = 101
CURVE_POINTS = 300  # at most, of a curve


def what_was_run(story: ReportData) -> str:
    """The runs, their settings in short, and what failed."""
    rows = []
    for group in story.groups:
        config, training = group.config, group.config["training"]
        log = f"{config['data']['transitions']:,} transitions, {config['data']['episodes']:,} episodes"
        steps = sorted({f"{result.step:,}" for result in group.seeds})
        tried = f"{config['environment']} ({config['physics']})" if config["environment"] else "not tried"
        every = f"{training['episodes']} episodes every {training['evaluate_every']:,} steps"
        rows.append((group.task, group.column, log, str(len(group.seeds)), " to ".join(steps), f"{tried}, {every}"))
    table = table_of(
        Table("", ("dataset", "method", "log", "seeds", "steps", "tried in"), tuple(rows)),
        style="wrap",
        methods=story.styles,
    )
    if not story.failures:
        return table
    failed = Table("", ("failed", "why"), tuple(story.failures))
    return table + '<h3 class="failed">What failed</h3>' + table_of(failed, style="wrap")


def scores(story: ReportData) -> str:
    """The table, what it says together, and the performance profiles."""
    if not story.results.runs:
        return ""
    counts = sorted({result.num_last for group in story.groups for result in group.seeds})
    last = "its last evaluation" if counts == [1] else f"its last {' or '.join(map(str, counts))} evaluations"
    papers = "; the paper's own figures are in gray beside ours" if story.results.paper else ""
    parts = [
        note(
            f"A run's score is the mean over {last}: 0 is a random policy, 100 an expert. "
            f"Mean ± standard deviation over seeds{papers}."
        ),
        table_of(tables.score_table(story.results), methods=story.styles),
    ]
    summary, improvement = tables.summary_table(story.results), tables.improvement_table(story.results)
    parts += [f"<h3>{html.escape(summary.title)}</h3>", table_of(summary, methods=story.styles)]
    if len(improvement.rows) > 1:
        parts += [f"<h3>{html.escape(improvement.title)}</h3>", table_of(improvement, methods=story.styles)]
    return "".join(parts) + f'<div class="charts">{_profiles(story)}</div>'


def learning_curves(story: ReportData) -> str:
    """Scores over steps, one chart per dataset."""
    charts = _by_task(story, lambda result: result.evaluations, "score", y_label="normalized score", zero=True)
    text = "Mean over seeds; the band is one standard deviation to each side."
    return charts_or_nothing(charts, text)


def values(story: ReportData) -> str:
    """Each method's largest value against its own bound, which no true value exceeds."""
    charts = []
    for task in story.tasks:
        groups = [group for group in story.groups if group.task == task]
        lines = _lines(story, groups, lambda result: result.history, "max_q")
        if lines:
            limits = _bounds(story, groups)
            sizes = [limit.value for limit in limits]
            largest = max([*sizes, *(float(line.y.max()) for line in lines)])
            log = bool(sizes) and largest > 10 * min(sizes)
            charts.append(
                line_chart(task, lines, x_label="step", y_label="largest Q", log=log, zero=not log, limits=limits)
            )
    text = (
        "The largest value among each stretch of batches. A method's bound is the log's largest reward, as the method "
        "scales it, over 1 − γ. A value above it is wrong: the critic overrates actions that the log lacks."
    )
    return charts_or_nothing(charts, text)


def _bounds(story: ReportData, groups: Sequence[Group]) -> list[Limit]:
    """The bounds of Q on a task: one in no method's color where all have the same, else each method's in its own."""
    found = {group.column: row["q_bound"] for group in groups for row in last_rows(group) if "q_bound" in row}
    sizes = set(found.values())
    if len(sizes) == 1:
        (size,) = sizes
        return [Limit(f"bound: {size:.4g}", size)]
    return [Limit(f"bound of {name}: {size:.4g}", size, story.styles[name]) for name, size in found.items()]


def distance(story: ReportData) -> str:
    """How far the policy's actions are from logged ones."""
    charts = _by_task(
        story, lambda result: result.history, "data_distance", y_label="distance, in medians of the log", zero=True
    )
    text = "The policy's mean distance to the data; 1 is the median distance between neighbors in the log itself."
    return charts_or_nothing(charts, text)


def metric(story: ReportData) -> str:
    """Both losses, the largest distance against its bound, and the checks (the paper's Figure 3)."""
    charts = []
    for metric in story.metrics:
        history, checks = metric.learned.history, metric.learned.checks
        losses = [_line(history, "phi_loss", "loss of Φ", "n0"), _line(history, "psi_loss", "loss of Ψ", "n1")]
        charts.append(line_chart(f"{metric.task}: losses", losses, x_label="step", y_label="loss", log=True))
        distances = [_line(history, "mean_distance", "mean", "n0"), _line(history, "max_distance", "largest", "n1")]
        bound = Limit("bound", metric.learned.bound)
        charts.append(
            line_chart(
                f"{metric.task}: distances", distances, x_label="step", y_label="distance", zero=True, limits=[bound]
            )
        )
        names = {
            "support_auc": "logged against random",
            "noise_auc": "against noisy",
            "neighbor_overlap": "neighbors kept",
        }
        found = [
            _line(rows, name, label, f"n{number}")
            for number, (name, label) in enumerate(names.items())
            if (rows := [row for row in checks if name in row])
        ]
        if found:
            charts.append(
                line_chart(f"{metric.task}: checks on held-out episodes", found, x_label="step", y_label="share")
            )
    return charts_or_nothing(charts)


def noise(story: ReportData) -> str:
    """d_Φ between a logged pair and a noisy copy, against the size of the noise (the paper's Figure 4)."""
    charts, notes = [], []
    for metric in story.metrics:
        try:
            data = _data(metric)
        except (PloffError, OSError) as error:
            notes.append(note(f"{metric.task}: the log is not to be had here ({error})."))
            continue
        labels = [f"{size:g}" for size in NOISE_SIZES]
        for units, about in UNITS.items():
            for what, distances in noise_distances(metric.learned, data, units).items():
                title, size = f"{metric.task}: noise on the {what}", f"size, {about[what]}"
                charts.append(box_chart(title, labels, list(distances), x_label=size, y_label="distance dΦ"))
    text = "Distances of 2,000 logged pairs to noisy copies of themselves: median, quartiles, 5th and 95th percentile."
    return charts_or_nothing(charts, text) + "".join(notes)


def states(story: ReportData) -> str:
    """Logged states and the nearest ones of other episodes under d_Ψ (the paper's appendix C)."""
    parts = []
    for metric in story.metrics:
        try:
            data = _data(metric)
        except (PloffError, OSError) as error:
            parts.append(note(f"{metric.task}: states cannot be drawn here ({error})."))
            continue
        if not pictures.can_be_drawn(data):
            if len(data.observation_shape) == 1:
                names = datasets.column_names(data)
                parts += [f"<h3>{html.escape(metric.task)}</h3>", table_of(state_table(metric.learned, data, names))]
            continue
        try:
            rows = pictures.draw_states(metric.learned, data)
        except Exception as error:  # drawing depends on drivers that fail in ways of their own
            parts.append(note(f"{metric.task}: states cannot be drawn here ({type(error).__name__}: {error})."))
            continue
        parts.append(f"<h3>{html.escape(metric.task)}</h3>")
        parts += [f'<div class="states">{"".join(map(_picture, row))}</div>' for row in rows]
    text = "A logged state, and behind it the nearest states of other episodes under the learned distance dΨ."
    return note(text) + "".join(parts) if parts else ""


def _picture(picture: pictures.Picture) -> str:
    where = f"episode {picture.episode}, step {picture.step}"
    text = f"{where}<br>dΨ = {picture.distance:.3g}" if picture.distance else where
    return f'<figure><img src="{picture.address}" alt="{where}">{text}</figure>'


def _profiles(story: ReportData) -> str:
    """The share of runs above each score."""
    found = np.array([score for *_, score in story.results.runs])
    thresholds = np.linspace(min(0.0, found.min()), max(100.0, found.max()), PROFILE_POINTS)
    lines = []
    for column in story.columns:
        column_scores = story.results.of_column(column)
        if column_scores is not None:
            profile = statistics.performance_profile(column_scores, thresholds)
            lines.append(Line(column, thresholds, profile.share, profile.low, profile.high, story.styles[column]))
    return line_chart("Performance profile", lines, x_label="score τ", y_label="share of runs above τ", zero=True)


def _by_task(
    story: ReportData, rows_of: Callable[[SeedResult], list[Row]], name: str, *, y_label: str, zero: bool
) -> list[str]:
    charts = []
    for task in story.tasks:
        lines = _lines(story, [group for group in story.groups if group.task == task], rows_of, name)
        if lines:
            charts.append(line_chart(task, lines, x_label="step", y_label=y_label, zero=zero))
    return charts


def _lines(
    story: ReportData, groups: Iterable[Group], rows_of: Callable[[SeedResult], list[Row]], name: str
) -> list[Line]:
    """A curve for each method that has the quantity: mean and deviation over its seeds, at steps that all have."""
    lines = []
    for group in groups:
        series = [{row["step"]: row[name] for row in rows_of(result) if name in row} for result in group.seeds]
        steps = sorted(set.intersection(*(set(each) for each in series))) if all(series) else []
        if not steps:
            continue
        chosen = np.array(steps)[:: max(1, len(steps) // CURVE_POINTS)]
        found = np.array([[each[step] for step in chosen.tolist()] for each in series])
        mean, spread = (found.mean(axis=0), found.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(len(chosen)))
        low, high = (mean - spread, mean + spread) if len(found) > 1 else (None, None)
        lines.append(Line(group.column, chosen, mean, low, high, story.styles[group.column]))
    return lines


def _line(rows: Sequence[Row], name: str, label: str, style: str) -> Line:
    kept = rows[:: max(1, len(rows) // CURVE_POINTS)]
    return Line(label, np.array([row["step"] for row in kept]), np.array([row[name] for row in kept]), style=style)


def _data(metric: TaskMetric) -> Transitions:
    return datasets.load(metric.dataset, **metric.reading)
