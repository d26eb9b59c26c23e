"""The semantic cache, scored on labelled pairs: `tiergate cache eval`.

    opening, formats, conversation   data in their several forms, told apart by content
    vectors, shelf                   every text embedded once; stored questions, nearest first
    policies, guarded                what serves: a bare cosine, or the product's own decision (caches/semantic/decision.py)
    scoring, lookups, stream         pair by pair; against a table of stored ones; a Zipf stream behind the exact cache
    curve, calibrate, wilson         every cut, the cut for a bound, and how sure one can be
    judge, shadow, learner           a verifier by script or on disk, and what is learned from verified answers
    report, table, plots             one document, and what is printed and drawn from it

Rules:
- What is decided is decided by the product's code. Nothing here has an opinion of its own about two texts.
- A label that cannot be read is an error; what is left out is counted.
- Shares are told with their counts and 95 % intervals. A cut is chosen on one half of the data and told on the other.
- Randomness is seeded: the same command over the same data gives the same figures.
"""
