"""Answers to questions that mean the same: which may be served, to whom, and how often that was wrong.

    types      what is asked of the semantic cache, and what it says
    partition  which questions may be compared at all: everything but the last user message must be equal
    gate       does anything that is kept share enough words with a question to be worth an embedding?
    eligible   which questions are bound to a time, a person or a whim
    decision   may the answer of one question serve the other? (presets: the cuts of each embedder)
    likeness   which of several that may serve?
    evidence   what verified answers have shown, and the cut that keeps the error under a bound
    verified   what a verifier makes of what was nearly served
    refused    pairs that are never to be served again
    cache      all of it together, over an embedder (`caches.embed`) and a vector store (`caches.vectors`)

The modules that need numpy are loaded only where the cache is on: `types` and `partition` need none.
"""
