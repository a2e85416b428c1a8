"""Times the search for every state's neighbors, beside scikit-learn's kd-tree and other libraries, on real embeddings.

    python benchmarks/neighbors.py DATASET [--steps 10000] [--sizes 100000 300000 1000000] [--out FOLDER]

Learns a metric on the dataset, embeds its states, and finds 50 neighbors for all of them, on sets of whole episodes.
The embeddings are kept in the file that --embeddings names, and read from it where it is there already.
The kd-tree answers a sample of the queries, on the one core that it uses; its time for all is that, extrapolated.
It is tried as it comes, with leaves of 40 points, and with leaves of 20: of 10, 20, 40, 80, 160 and 320 the quickest at
1,000,000. The results go to FOLDER as CSV if it is given. The last line is `ratio: R`, the quicker kd-tree over ploff
at the largest size, by the clock: ploff on all cores, the kd-tree on the one that it uses. The ratio of processor
seconds, which compares like with like however many cores either uses, is printed before it.
"""

import argparse
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

import faiss
import numpy as np
import pynndescent
from sklearn.neighbors import KDTree

from ploff import Transitions, datasets
from ploff.metric.train import MetricTraining, learn_metric
from ploff.neighbors import SearchConfig, TableKey, build_table, embed_logged_states
from ploff.neighbors.inverted_lists import InvertedLists
from ploff.neighbors.knn import GroundTruth
from ploff.utils.files import write_csv

K = 50
LEAF, USUAL_LEAF = 20, 40  # points in a leaf of the kd-tree: the quickest, and scikit-learn's default
Row = dict[str, object]


class Stopwatch:
    """Counts the seconds of the clock and of the processor since it was made."""

    def __init__(self):
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Gives the seconds of the clock and those of the processor."""
        return time.perf_counter() - self._wall, time.process_time() - self._processor


def embed(data: Transitions, steps: int) -> np.ndarray:
    """Computes Ψ of every state, under a metric learned for `steps` steps."""
    training = MetricTraining(steps=steps, early_stopping=False, check_every=steps)
    learned = learn_metric(data, training=training)
    return embed_logged_states(learned.metric, learned.in_units_of(data).to_device())


def embeddings(data: Transitions, steps: int, path: pathlib.Path | None) -> np.ndarray:
    """Does what `embed` does, or reads the file if it is there."""
    if path is not None and path.exists():
        states = np.load(path)
        if len(states) != data.num_states:
            raise SystemExit(f"{path} holds {len(states):,} states, the dataset {data.num_states:,}")
        return states
    states = embed(data, steps)
    if path is not None:
        np.save(path, states)
    return states


def subset(data: Transitions, count: int) -> np.ndarray:
    """Draws random whole episodes; gives their rows, `count` transitions in all."""
    starts, lengths = data.episode_starts(), data.episode_lengths()
    chosen = np.random.default_rng(0).permutation(len(starts))
    rows = np.concatenate([starts[e] + np.arange(int(lengths[e])) for e in chosen])
    return np.sort(rows[:count])


def time_table(states: np.ndarray, num_pairs: int) -> Row:
    """Times ploff, from embeddings to a table on the disk whose recall has been measured."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        table = build_table(
            pathlib.Path(folder) / "neighbors.table",
            states,
            num_pairs,
            TableKey("benchmark", "benchmark"),
            quiet=True,
        )
        wall, processor = watch.read()
    report = table.report
    return {
        "states": len(states),
        "seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
        "method": report.method,
        "probes": report.probes,
        "lists": report.lists,
        "recall": round(report.recall, 4),
        "recall_sample": report.sampled,
        "reached": report.reached,
        "load_average": round(os.getloadavg()[0], 1),
    }


class KDTreeTimes:
    """Times scikit-learn's kd-tree, which answers on one core: seconds for all queries, extrapolated from a sample."""

    def __init__(self, points: np.ndarray, queries: int, leaf: int):
        watch = Stopwatch()
        self.tree = KDTree(points, leaf_size=leaf)
        self.building = watch.read()
        self.sample = points[np.random.default_rng(1).choice(len(points), queries, replace=False)]
        self.factor = len(points) / queries
        self.answering = (np.inf, np.inf)

    def measure(self) -> None:
        """Answers the sample once more; the quickest time counts."""
        watch = Stopwatch()
        self.tree.query(self.sample, K)
        now = watch.read()
        self.answering = min(self.answering[0], now[0]), min(self.answering[1], now[1])

    def columns(self) -> Row:
        """Gives the seconds for all queries, building included."""
        wall, processor = (b + a * self.factor for b, a in zip(self.building, self.answering, strict=True))
        return {
            "kd_tree_queries": len(self.sample),
            "kd_tree_seconds": round(wall),
            "kd_tree_processor_seconds": round(processor),
        }


def exponent(rows: list[Row], column: str) -> float:
    """Fits the slope of log(column) over log(states)."""
    sizes, values = ([float(row[name]) for row in rows] for name in ("states", column))  # pyright: ignore
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def libraries(points: np.ndarray) -> Iterator[tuple[str, str, Callable[[], np.ndarray]]]:
    """Yields what is compared: name, setting, and a function that builds an index and answers every query."""

    def short_lists(probes: int) -> np.ndarray:
        index = InvertedLists.build(points)
        index.probes = probes
        return index.query(points, K, index.homes)

    def inverted(probes: int) -> np.ndarray:
        index = faiss.index_factory(points.shape[1], f"IVF{round(4 * len(points) ** 0.5)},Flat")
        index.train(points)  # pyright: ignore[reportCallIssue]
        index.add(points)  # pyright: ignore[reportCallIssue]
        faiss.ParameterSpace().set_index_parameter(index, "nprobe", probes)
        return index.search(points, K)[1]  # pyright: ignore[reportCallIssue]

    def graph(links: int, breadth: int) -> np.ndarray:
        index = faiss.IndexHNSWFlat(points.shape[1], links)
        index.hnsw.efConstruction, index.hnsw.efSearch = 60, breadth
        index.add(points)  # pyright: ignore[reportCallIssue]
        return index.search(points, K)[1]  # pyright: ignore[reportCallIssue]

    def descent() -> np.ndarray:
        return pynndescent.NNDescent(points, n_neighbors=K, random_state=0).neighbor_graph[0]  # pyright: ignore

    for probes in (24, 32, 48, 64):
        yield "ploff", f"{probes} lists' worth of points", lambda probes=probes: short_lists(probes)
    for probes in (8, 16, 24, 32):
        yield "faiss IVF", f"{probes} probes", lambda probes=probes: inverted(probes)
    for links, breadth in ((16, 64), (16, 128), (32, 128)):
        yield (
            "faiss HNSW",
            f"{links} links, search breadth {breadth}",
            lambda links=links, breadth=breadth: graph(links, breadth),
        )
    yield "pynndescent", "defaults", descent


def compare(points: np.ndarray) -> list[Row]:
    """Measures seconds and recall of each library on the same embeddings, every point a query."""
    truth = GroundTruth.sample(points, points, SearchConfig())
    pynndescent.NNDescent(points[:2000], n_neighbors=K, random_state=0).neighbor_graph  # noqa: B018 - compiles
    rows = []
    for library, setting, search in libraries(points):
        watch = Stopwatch()
        found = search()
        wall, processor = watch.read()
        recall = float(truth.recall(points, found[truth.rows]).mean())
        print(f"{library:12s} {setting:30s} recall {recall:.4f}   {wall:6.1f} s   processor {processor:6.1f} s")
        rows.append(
            {
                "library": library,
                "setting": setting,
                "points": len(points),
                "recall": round(recall, 4),
                "seconds": round(wall, 1),
                "processor_seconds": round(processor, 1),
            }
        )
    return rows


def write(folder: pathlib.Path | None, name: str, rows: list[Row]) -> None:
    if folder is not None and rows:
        write_csv(folder / name, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=10_000, help="of metric learning")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=200, help="that the kd-tree answers")
    parser.add_argument("--repeats", type=int, default=3, help="of both; the quickest counts")
    parser.add_argument("--compare", type=int, default=100_000, help="points to compare libraries on; 0 for none")
    parser.add_argument("--embeddings", type=pathlib.Path, help="a .npy file to keep the embeddings in")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()

    data = datasets.load(options.dataset)
    states = embeddings(data, options.steps, options.embeddings)
    print(f"{options.dataset}: {len(data):,} transitions, {options.steps:,} metric steps, {os.cpu_count()} cores")
    if options.compare:
        write(options.out, "neighbors_comparison.csv", compare(states[subset(data, options.compare)]))

    rows = []
    for size in options.sizes:
        whole = size >= len(data)
        chosen = states if whole else states[subset(data, size)]
        num_pairs = len(data) if whole else len(chosen)
        tree, usual = (KDTreeTimes(chosen[:num_pairs], options.queries, leaf) for leaf in (LEAF, USUAL_LEAF))
        tables = []
        for _ in range(options.repeats):  # in turn, so that all meet the same noise
            tree.measure()
            usual.measure()
            tables.append(time_table(chosen, num_pairs))
        row = min(tables, key=lambda table: table["seconds"])  # pyright: ignore
        row |= tree.columns()
        row["usual_kd_tree_seconds"] = usual.columns()["kd_tree_seconds"]
        row["ratio"] = round(row["kd_tree_seconds"] / row["seconds"], 1)  # pyright: ignore
        row["processor_ratio"] = round(row["kd_tree_processor_seconds"] / row["processor_seconds"], 1)  # pyright: ignore
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    write(options.out, "neighbors_scaling.csv", rows)
    if len(rows) > 1:
        clock, processor = (exponent(rows, name) for name in ("seconds", "processor_seconds"))
        print(f"cost grows as N^{clock:.2f} (clock), N^{processor:.2f} (processor)")
    print(f"the kd-tree's times are extrapolated from {options.queries} queries; it uses one core")
    print(f"ratio of processor seconds: {rows[-1]['processor_ratio']}")
    print(f"ratio to the kd-tree as it comes: {rows[-1]['usual_kd_tree_seconds'] / rows[-1]['seconds']:.1f}")
    print(f"by the clock, {os.cpu_count()} cores to one:\nratio: {rows[-1]['ratio']}")


if __name__ == "__main__":
    main()
