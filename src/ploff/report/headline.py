"""What the page says first: who is ahead and by how much, what is wrong; and every method's settings."""

import html
import json
from collections.abc import Iterator, Mapping

import numpy as np

from ploff.agents import METHODS
from ploff.experiments import statistics
from ploff.experiments.tables import Table
from ploff.metric.pseudometric import MetricConfig
from ploff.report.gather import Group, ReportData, last_rows
from ploff.report.pieces import swatch, table_of
from ploff.tasks import normalized_score
from ploff.utils.config import to_plain


def headline(story: ReportData) -> str:
    """The best method beside the next one and the data, and a list of what is wrong."""
    said = f'<p class="headline">{_ranking(story)}</p>'
    wrong = "".join(f"<li>{html.escape(text)}</li>" for text in alerts(story))
    return said + (f'<ul class="alerts">{wrong}</ul>' if wrong else "")


def alerts(story: ReportData) -> Iterator[str]:
    """What is wrong as things stand: values and distances beyond their bounds, and jobs that failed."""
    for group in story.groups:
        beyond = [row for row in last_rows(group) if row.get("max_q", 0.0) > row.get("q_bound", np.inf)]
        if beyond:
            worst = max(beyond, key=lambda row: row["max_q"])
            yield (
                f"{group.column} on {group.task} ends with a value of {worst['max_q']:.4g}, where "
                f"{worst['q_bound']:.4g} is the most there can be ({len(beyond)} of {len(group.seeds)} seeds)."
            )
    for metric in story.metrics:
        if metric.learned.exceeds_bound:
            yield f"The metric of {metric.task} ends with a distance beyond its bound of {metric.learned.bound:.4g}."
    if story.failures:
        yield f"Failed: {len(story.failures)}; the reasons are below."


def _ranking(story: ReportData) -> str:
    """One or two sentences on scores; on returns where no score is known."""
    means = {name: _mean(story, name) for name in story.columns}
    known = sorted(((mean, name) for name, mean in means.items() if mean is not None), reverse=True)
    if not known:
        return _returns(story)
    where = story.tasks[0] if len(story.tasks) == 1 else f"{len(story.tasks)} datasets"
    (best, first), *others = known
    text = f"{_named(story, first)} has a mean score of <strong>{best:.1f}</strong> on {html.escape(where)}"
    if others:
        mean, second = others[0]
        text += f", the highest of {len(known)}; next is {_named(story, second)} with {mean:.1f}"
        text += ", and their intervals overlap" if _overlap(story, first, second) else ""
    data = _of_data(story)
    return f"{text}. " + (f"The logs' own episodes have {data:.1f}." if data is not None else "")


def _returns(story: ReportData) -> str:
    """Mean returns, where no reference makes scores of them."""
    found = [(group, [r.mean_return for r in group.seeds if r.mean_return is not None]) for group in story.groups]
    told = [f"{_named(story, group.column)} {np.mean(values):.4g}" for group, values in found if values]
    if told:
        return f"Mean returns: {', '.join(told)}."
    return html.escape(f"No policy was tried in an environment: {', '.join(story.columns)}.")


def _named(story: ReportData, column: str) -> str:
    return f"{swatch(story.styles[column])}{html.escape(column)}"


def _mean(story: ReportData, column: str) -> float | None:
    """The mean over tasks of the means over seeds; None where a task has no score."""
    runs = [story.results.scores[column][task] for task in story.tasks]
    return float(np.mean([float(np.mean(scores)) for scores in runs])) if all(runs) else None


def _overlap(story: ReportData, first: str, second: str) -> bool:
    """Whether the intervals of two methods' means have a value in common; False where a task has one run."""
    found = [story.results.of_column(name) for name in (first, second)]
    if any(scores is None or scores.sizes.min() < 2 for scores in found):
        return False
    higher, lower = (statistics.interval(scores, statistics.mean) for scores in found if scores is not None)
    return lower.high >= higher.low


def _of_data(story: ReportData) -> float | None:
    """The mean score of the logs' own episodes; None where a reference is not known."""
    configs = {group.task: group.config for group in story.groups}
    if not all(config["references"] for config in configs.values()):
        return None
    scores = [normalized_score(c["data"]["mean_return"], tuple(c["references"])) for c in configs.values()]
    return float(np.mean(scores))


def settings(story: ReportData) -> str:
    """Every method's settings and every metric's, folded; those that are not defaults are said at once."""
    parts, seen = [], dict[str, list[Group]]()
    for group in story.groups:
        key = json.dumps([group.column, group.config["method"], group.config["settings"]], sort_keys=True)
        seen.setdefault(key, []).append(group)
    for groups in seen.values():
        config, column = groups[0].config, groups[0].column
        default = to_plain(METHODS[config["method"]].config()) if config["method"] in METHODS else {}
        tasks = "" if len(seen) == len(story.columns) else f" on {', '.join(group.task for group in groups)}"
        title = f"{_named(story, column)}{html.escape(tasks)}"
        parts.append(_folded(title, {**config["settings"], **_lengths(config)}, default))
    for metric in story.metrics:
        title = html.escape(f"metric of {metric.task}")
        parts.append(_folded(title, to_plain(metric.learned.config), to_plain(MetricConfig())))
    return "".join(parts)


def _lengths(config: Mapping) -> dict:
    return dict(config["training"])


def _folded(title: str, own: Mapping, default: Mapping) -> str:
    """A table behind its title, which names what differs from the defaults."""
    changed = [f"{name}={_text(value)}" for name, value in own.items() if name in default and default[name] != value]
    shown = html.escape(", ".join(changed) or "defaults")
    rows = tuple((name, _text(value), _text(default.get(name, ""))) for name, value in own.items())
    table = table_of(Table("", ("setting", "value", "default"), rows))
    return f"<details><summary>{title}: {shown}</summary>{table}</details>"


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
