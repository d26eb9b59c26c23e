"""Writes the reference pages that must not drift from the code: `python -m gateway.lab.reference docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.build import build
from gateway.config import parse, reference
from gateway.families import Counter, Gauge, Histogram, Total
from gateway.logs import NullLog
from gateway.metrics import Metrics

_SMALLEST = "models: [{name: m, replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}]}]"
_MADE = "<!-- Made by `python -m gateway.lab.reference docs`: edit the code instead. -->\n\n"


def config_page() -> str:
    """Every key of config.yaml."""
    rows = ["| key | takes | default | what it is |", "|---|---|---|---|"]
    rows += [f"| `{doc.path}` | {_cell(doc.expects)} | {_code(doc.default)} | {_cell(doc.doc)} |" for doc in reference()]
    return (
        f"# config.yaml, every key\n\n{_MADE}Durations: `250ms`, `30s`, `5m`, `1h`, `1d`; a plain number is seconds. "
        "Sizes: `64KiB`, `16MiB`, `1GB`.\n"
        "`${NAME}` and `${NAME:-default}` work in any string. An unknown key is an error.\n"
        "`tiergate check` prints what is in effect.\n\n" + "\n".join(rows) + "\n"
    )


def metrics_page(metrics: Metrics) -> str:
    """Every family of /metrics."""
    rows = ["| metric | type | labels | what it is |", "|---|---|---|---|"]
    kinds = {Counter: "counter", Total: "counter", Histogram: "histogram", Gauge: "gauge"}
    for family in sorted(metrics.families(), key=lambda family: family.name):
        name = f"{family.name}_total" if isinstance(family, Counter | Total) else family.name
        labels = ", ".join(f"`{label}`" for label in family.labels) or "none"
        rows.append(f"| `{name}` | {kinds[type(family)]} | {labels} | {_cell(family.help)} |")
    return (
        f"# /metrics, every family\n\n{_MADE}All are there from the first scrape. Label values are bounded: `tenant` is the name "
        "for the first 200 seen, `other` for the\nrest; models are the config's; replicas are those that are "
        "there now, at most 1,024 of a model; everything else is a\nclosed set. `outcome`: `ok`, `client_error`, `limited`, "
        "`rejected`, `timeout`, `upstream_error`, `broken_stream`,\n`client_gone`. "
        "The process's own memory, CPU and file descriptors are there too, as `process_*`.\n\n"
        "With several workers (`serve --workers`) any of them answers for all: counters and histograms are sums, `process_*`\n"
        "are those of all processes together (a page that processes share counts once for each; the start is that of the\n"
        "oldest), and `python_gc_*` are those of the dispatcher alone. A worker that is killed takes the counts of its last\n"
        "half second along. A dispatcher that is killed takes what it and dead workers had counted since the last scrape; no\n"
        "counter falls.\n\n" + "\n".join(rows) + "\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str | None) -> str:
    return f"`{_cell(text)}`" if text else ""


def pages() -> dict[str, str]:
    """File name → text."""
    metrics = build(parse(_SMALLEST), NullLog()).metrics
    return {"config.md": config_page(), "metrics.md": metrics_page(metrics)}


if __name__ == "__main__":
    for name, text in pages().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
