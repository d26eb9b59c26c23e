"""Learning on the operator's own traffic: what `auto` decided, how good that was, and the policies that come of it.

    watching    a few requests that `auto` decided are also asked of the other tier, behind their clients' backs
    outcome     two answers → how good each tier was: by agreement, else by a judge
    recent      what was decided lately, for the feedback that comes later
    journal     lines of what was learned, in files of the operator's own
    line        one such line
    versions    the policies that were made of them, and which one is in force
    following   a running gateway takes the one that is in force
    schedule    `tiergate calibrate`, now and then, in a process of its own

`tiergate calibrate` itself is in `gateway.lab.calibrate`.
"""
