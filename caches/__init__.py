"""Answers that need not be made again: an exact cache, replay in either wire format, and single flight.

    types      the values and protocols that the other modules share
    key        which requests are the same request (scope: for whom)
    directives what a client says about caching         policy   which requests may look up, store and share
    freshness  how good a kept answer still is           worth    which answers are worth keeping at all
    memory     a bounded LRU store in this process       null     the store of a cache that is off
    assemble   SSE events → one JSON answer (calls: its tool calls)
    replay     one JSON answer → SSE events (pieces: how texts are cut; pace: how fast they go)
    responses, messages   both ways, of the endpoints whose streams have named events (events: their bytes)
    flight     identical requests share one answer while it is being made (producer: what feeds it; relay, reader: its pure core)

Nothing here knows a tenant's name, a socket or a configuration file: the gateway hands in plain values.
"""
