"""Clients and suites that others wrote, through tiergate and through its peers: `make conformance`.

command     python -m bench.conformance: which suites, through which targets
targets     what is called: the engines' look-alike itself, tiergate before two of them, and the peers before the same
suites      what calls: each suite in an environment of its own below .venv-conformance/, with pinned versions
suites/     the programs that run in those environments; record.py is what they tell their results with
verdict     whose fault a failure is
page        docs/conformance.md
vllm_bench  vLLM's own load generator before real vLLM, by hand; served is its part of the page
"""
