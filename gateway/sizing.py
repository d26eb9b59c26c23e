"""How many tokens a prompt has for the model that gets it: thought before, learned after.

Who chooses a model goes by `needs.prompt_tokens`, at a ratio that is common to all. Reservation, queue, balance and what is
charged where no backend counted go by the model's own.
"""

from __future__ import annotations

from gateway.call import Station
from gateway.job import Job
from gateway.metrics import Metrics


def estimate_of(job: Job, station: Station) -> int:
    """Tokens of its prompt, as that model is thought to count them."""
    return 0 if job.endpoint.free else station.density.estimate(job.prompt_bytes) + job.ready_tokens


def learn(job: Job, station: Station, metrics: Metrics) -> None:
    """A backend has counted the prompt of a complete answer. Images, sounds and ready tokens say nothing of text."""
    believed = None if job.ready_tokens else station.density.learn(job.prompt_bytes, job.work.prompt_tokens)
    if believed is not None:
        metrics.believed(station.name, *believed)
