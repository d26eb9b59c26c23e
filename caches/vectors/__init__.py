"""Where vectors are kept: Qdrant, on a directory of this machine or as a server.

types      what is kept, and what a store can do
store      the store: deadlines, batches, the background; its parts are watch (breaker, status) and probe (what opening it means)
backend    what the store asks of either Qdrant:
embedded     its engine on a directory, in a process of its own: engine (that process), shard (its calls of Qdrant), process and
             life (the same from outside), asks (what the two say to each other), notes (small files beside)
remote       a server or a cluster
rows       what lies in a row of Qdrant, for both; points makes rows of points
options    how an engine is to lay its points out
"""
