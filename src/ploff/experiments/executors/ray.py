"""Jobs on a Ray cluster: the same jobs, each in a fresh process on one core of some node.

Every node must see the suite's folder under the same path (a shared file system): metrics, neighbors and checkpoints
lie there, so that a run finds what another node made, and resumes wherever it is put after its node was lost.
"""

import os
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

from ploff.experiments.executors import STAGES, attempt
from ploff.experiments.jobs import Event, Job, Outcome
from ploff.utils import interrupts
from ploff.utils.cores import pin_to_one_core
from ploff.utils.errors import PloffError, require

SECONDS_BETWEEN_LOOKS = 1.0


class RayExecutor:
    """A Ray cluster's cores."""

    def __init__(self, folder: str | os.PathLike[str], address: str, target: str = STAGES):
        self._ray = require("ray", extra="ray")
        # Ray would take the accelerators of a worker that asked for none away, with a warning that it soon will not.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0]
            raise PloffError(f"no Ray cluster answers at {address!r}: {first}; `ray start --head` begins one") from None
        interrupts.install()  # Ray has its own answer to SIGTERM: to leave at once
        self._folder, self._target = pathlib.Path(folder).resolve(), target
        # One process per job: the compiler's memory goes with it, and its core is free again.
        options = {"num_cpus": 1, "max_retries": 0, "max_calls": 1, "num_returns": "streaming"}
        self._remote = self._ray.remote(**options)(_run)
        self._jobs: dict[Any, Job] = {}  # by the stream of their events
        try:
            self._check_folder()
        except BaseException:
            self._ray.shutdown()
            raise
        self.slots = int(self._ray.cluster_resources()["CPU"])

    def submit(self, job: Job) -> None:
        """Hands a job to the cluster."""
        self._jobs[self._remote.remote(self._target, job, str(self._folder))] = job

    def wait(self) -> list[tuple[Job, Event]]:
        """What the running jobs tell; nothing after a while, for the caller to look for Ctrl-C."""
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, fetch_local=False, timeout=SECONDS_BETWEEN_LOOKS)
        told = [(self._jobs[stream], self._next_event(stream), stream) for stream in ready]
        for _, event, stream in told:
            if isinstance(event, Outcome):
                del self._jobs[stream]
        return [(job, event) for job, event, _ in told]

    def close(self) -> None:
        """Stops what is running and leaves the cluster."""
        for stream in self._jobs:
            self._ray.cancel(stream, force=True)
        self._ray.shutdown()

    def _next_event(self, stream: Any) -> Event:
        try:
            return self._ray.get(next(stream))
        except self._ray.exceptions.LocalRayletDiedError:
            raise PloffError(
                "the Ray node of this machine is lost, and with it the way to the others; what is done is kept: "
                "start the node again (`ray start`), and run the same command again"
            ) from None
        except (self._ray.exceptions.RayError, StopIteration) as error:
            return Outcome("lost", reason=f"its worker went away ({type(error).__name__})")

    def _check_folder(self) -> None:
        """Asks every node whether it sees what lies in the suite's folder here."""
        self._folder.mkdir(parents=True, exist_ok=True)
        token = self._folder / f".seen-{uuid.uuid4().hex}"
        token.touch()
        try:
            strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            ask = self._ray.remote(num_cpus=0, max_calls=1)(_sees)
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
            answers = self._ray.get(
                [
                    ask.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(str(token))
                    for node in nodes
                ]
            )
        finally:
            token.unlink()
        for node, seen in zip(nodes, answers, strict=True):
            if not seen:
                raise PloffError(
                    f"node {node['NodeManagerHostname']} does not see {self._folder}; "
                    "choose an --out that all nodes share"
                )


def _run(target: str, job: Job, folder: str) -> Iterator[Event]:
    pin_to_one_core()
    yield from attempt(target, job, folder)


def _sees(token: str) -> bool:
    return pathlib.Path(token).exists()
