"""`tiergate calibrate`: from what a gateway wrote down of its own traffic to a routing policy, where that is a better one.

samples      lines of the journal → labelled requests, in the order of time
measure      how good a policy is on requests that it has not seen, and what two differ by
recalibrate  the order of the policy that ships, with probabilities of one's own
rule         whether the new one takes over
study        all of it
report       for people, for programs, for the log
command      the command line
"""
