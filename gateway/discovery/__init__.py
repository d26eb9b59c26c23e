"""Replicas that are found while the gateway runs: by name in the DNS, or in a file that somebody writes.

    types      what a source says, and what it may be: a list, or why there is none
    single     work in a thread that may hang
    system     A and AAAA records through the system's resolver
    records    SRV records, and A and AAAA records of a DNS server that the config names (dnspython)
    file       a watched YAML file
    make       the source that an entry of the config asks for
    watch      from what a source says to who is in the pool

Nothing here knows a pool: replicas come and go through `gateway.fleet`.
"""
