"""`tiergate doctor`: reaches everything that a config names, and says what to mend.

    facts         what was found out: answers, addresses, certificates, ports, this machine
    findings      what it means: how bad, where in the config, what is wrong, how to mend it
    probe         I/O: asks one replica
    names         I/O: looks a name up, with a deadline that holds
    certificates  I/O: looks at a server's certificate, also one that nobody should trust
    ports         I/O: may we listen here, and who does if we may not
    redis         I/O: asks a Redis, and judges it
    embedder      I/O: builds the embedder, or asks the pool that stands for it, and judges it
    vectors       I/O: opens the vector store by its own probe, and judges it
    meaning       the two of them together
    machine       reads this interpreter and its limits
    interpreter   how it was built; the Makefile asks too
    engine        checks of one replica's facts
    pools         checks of replicas beside each other
    access        checks of tenants, plans and keys
    semantic      checks of what the config says of the semantic cache
    disk          checks of the directories that are written to
    clocks        the check of other machines' time
    diagnosis     all of it at once, under one deadline, sorted as the config is

Rules
1. Finding out and judging are apart: a check takes facts and returns findings, asks nobody and knows no clock.
2. Every question has a deadline and a bound, and all of them together have one: what hangs is a finding.
3. What another machine sent is shown short, quoted and on one line. A secret is never shown, not even by an echo.
4. Nothing is changed: what is written to a vector store is deleted again, no port is kept, and no request is sent to a model but
   by `--deep`, and one sentence to the pool that embeds.
"""
