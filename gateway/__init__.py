"""tiergate: an OpenAI-compatible gateway in front of self-hosted vLLM.

Life of a request, and the file where each part is
    http1      bytes become a request, and the answer becomes bytes
    edge       every request gets an answer, a log line and a count, whatever happens inside
    pipeline   authenticate · admit · resolve · cache · decide · reserve · queue · forward · settle · store
    forward    a replica, an attempt, another one where that is safe
Around them: `config` reads the one file, `build` is the only place that wires objects together, `app` starts and stops
them. What a request asks of limits, caches and replicas goes through `dispatch`, which does it here or asks another process;
`node` is the processes, where there are several (docs/architecture.md). The leaves `routing`, `caches`, `limits` and
`backends` know nothing of each other or of this package.
"""

__version__ = "0.1.0"
