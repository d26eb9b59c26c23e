"""What tiergate costs, measured: commands of this repository, no part of what is installed.

- `compare`: `make bench`, tiergate and its peers on one upstream; writes docs/benchmarks.md, .json and two .png.
- `quick`: this checkout alone, or beside one router, in a minute; prints a table, writes nothing.
- `workers`: `make bench-workers`, several workers beside one process, all processes counted; prints a table, writes nothing.
- `instructions`: `make bench-instructions`, instructions a request under valgrind's `callgrind`; prints a table, writes nothing.
- `vectors`: `make bench-vectors`, the embedded vector store at three sizes; prints a table, writes nothing.
- `embed`: what an embedding costs, and how late it makes the event loop; part of `make bench-caches`.
- `minilm`: `make minilm`, no measurement: makes the default embedder's files from its published weights.
- `ask`: what a worker's question to the dispatcher costs, both ends together.
- `slots`: fixed slots beside adaptive ones before engines that queue inside, in virtual time; prints a table (minutes).
- `client`: what a request upstream costs, for our client and for others.
- `tally`: what reports of workers and a scrape of their sums cost, in CPU time.
- `paced`: how far `tiergate load` keeps to its own clock with 2,000 streams.

The first two are made of `upstream` (what all gateways stand before), `load` (what calls them), `processes` (what runs them),
`stages` (the setups: the base, streams at once, tenants, replicas), `rounds` (the order), `cells` and `crowd` (what is measured)
and `peers` (who they are, `nginx` among them); `records` is the shape of the result, `report`, `aims`, `growth` and `chart` are
what is told of it. `workers` has its `turns`, made of `arrivals`, which also
sends at a rate, and of `tree`, which counts CPU exactly and by process.
"""
