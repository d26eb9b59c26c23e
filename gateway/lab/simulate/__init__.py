"""`tiergate simulate`: what an order of the queue does to waiting times, in virtual time, with the product's own queue.

workload.py   requests: when they come, whose, how long; made up, or with the lengths of a trace
terms.py      what single tenants do and may
policies.py   the orders that are compared
timeline.py   virtual time
door.py       the product's limiter
fleet.py      slots that serve, in front of them the product's scheduler
measures.py   waits of a run, and of several
halves.py     which options are about replicas, and which about the queue
study.py      loads x policies x seeds, paired
engine.py     an engine as vLLM schedules: steps, seats, a KV cache, preemption
capacity.py   slots that find themselves before such engines; `python -m bench.slots` tells what that brings
table.py, plots.py, arguments.py, command.py   how it is asked for and told
"""
