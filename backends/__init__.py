"""The fleet: pools of replicas, who is ready, who is next, and the wire to each.

    client    one replica's HTTP/1.1 client (connection, answer: its parts)    sse       events of a stream, without I/O
    pool      replicas behind one model (replica, lease, budget, window)       balance   how a pool chooses
    breaker   what failures do to a replica                                    health    what checks do

Nothing here knows a tenant, a cache or a configuration file.
"""
