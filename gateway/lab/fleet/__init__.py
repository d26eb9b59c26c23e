"""`tiergate simulate TRACE`: what the choice of a replica does to a fleet, in virtual time, with the product's pool and index.

job.py, traces.py, servegen.py, made.py   requests: of a public trace, of ServeGen's models of clients, made up
costs.py, blocks.py, engine.py            an engine: what a step takes, its KV memory, continuous batching
rules.py, policies.py                     who chooses: kinds of `backends.balance`, and rules of other routers
front.py, rumour.py, fleet.py               a gateway, how several hear of each other, all of them before the engines
measures.py, study.py                     a run; speeds x policies x seeds, paired
table.py, plots.py, arguments.py, command.py   how it is asked for and told
"""
