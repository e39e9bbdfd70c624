"""Metrics for Prometheus: latency and status of requests, and live exposure of every model.

With several processes, prometheus-client keeps the numbers of each process in files of the folder that the variable
``PROMETHEUS_MULTIPROC_DIR`` names, and any process reports their sums.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from icpe.serve.exposure import ExposureCounter
from icpe.serve.shelf import Shelf

_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
# Properties of Exposure, and what they mean.
_EXPOSURE = {
    "niche_share": "Share of the served places that niche items had.",
    "weighted_niche_share": "The same with the places weighted by 1 / log2(rank + 1).",
    "gini": "Gini coefficient of served items.",
    "weighted_gini": "The same with the places weighted by 1 / log2(rank + 1).",
    "entropy": "Shannon entropy of served items in bits.",
    "coverage": "Share of all items that were served at least once.",
    "mean_popularity": "Mean number of training interactions of the served places.",
    "popularity_lift": "Mean popularity of the served places relative to that of the training interactions, minus 1.",
    "amplification": "Slope of log exposure on log popularity; 1 is proportional.",
}

CurrentShelf = Callable[[], Shelf | None]


class Telemetry:
    """The metrics of a service.

    Args:
        shelf: returns the models that are served now, or None while they are loading.
        exposure: what has been served.
        board: folder that several processes share, or None for one process.
    """

    def __init__(self, shelf: CurrentShelf, exposure: ExposureCounter, board: Path | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # times of creation double the output, and nobody plots them
        own = CollectorRegistry()
        self._seconds = Histogram(
            "icpe_request_seconds", "Time from request to answer.", ["endpoint"], buckets=_BUCKETS, registry=own
        )
        self._requests = Counter("icpe_requests", "Answered requests.", ["endpoint", "status"], registry=own)
        self._reloads = Counter("icpe_reloads", "Reloads by outcome.", ["outcome"], registry=own)
        self._registry = own
        if board is not None:
            self._registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(self._registry, path=str(board))  # type: ignore[no-untyped-call]
        self._registry.register(_ExposureCollector(shelf, exposure))

    def observe(self, endpoint: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        self._seconds.labels(endpoint).observe(seconds)
        self._requests.labels(endpoint, str(status)).inc()

    def count_reload(self, outcome: str) -> None:
        """Record a reload."""
        self._reloads.labels(outcome).inc()

    def as_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _ExposureCollector(Collector):
    def __init__(self, shelf: CurrentShelf, exposure: ExposureCounter) -> None:
        self._shelf, self._exposure = shelf, exposure

    def collect(self) -> Iterator[Metric]:
        """Yield the exposure of every model. It is computed when Prometheus asks, not when lists are served."""
        shelf = self._shelf()
        ready = GaugeMetricFamily("icpe_ready", "1 if the models are loaded.", value=0 if shelf is None else 1)
        info = GaugeMetricFamily("icpe_model_info", "Always 1.", labels=["model", "version", "method", "backbone"])
        beta = GaugeMetricFamily("icpe_model_beta", "Setting of the dial.", labels=["model"])
        lists = CounterMetricFamily("icpe_served_lists", "Served lists of this version.", labels=["model"])
        places = CounterMetricFamily(
            "icpe_served_places", "Places in the served lists of this version.", labels=["model", "group"]
        )
        gauges = {
            what: GaugeMetricFamily(f"icpe_exposure_{what}", text, labels=["model"]) for what, text in _EXPOSURE.items()
        }
        for name, served in (shelf.models if shelf else {}).items():
            method = served.model.method
            info.add_metric([name, served.version, method.name, method.backbone.name], 1)
            beta.add_metric([name], served.model.beta)
            found = self._exposure.of(served)
            lists.add_metric([name], found.lists)
            places.add_metric([name, "head"], found.places - found.niche_places)
            places.add_metric([name, "niche"], found.niche_places)
            for what, gauge in gauges.items():
                gauge.add_metric([name], getattr(found, what))
        yield from (ready, info, beta, lists, places, *gauges.values())
