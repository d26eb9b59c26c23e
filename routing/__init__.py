"""Which model answers a request, and why.

    resolve   a model name as the client wrote it → the models that may answer (`Catalog`)
    needs     what the request cannot do without: capabilities and room for its tokens (`needs_of`)
    rules     how hard the request is, from its newest human ask (`Rules`; `fixed` says the same always)
    decide    all of it → one model, the reason, and who comes next when it fails (`decide`)

Everything here is a pure function of plain values: no I/O, no clock, no randomness, nothing from the other packages.
"""
