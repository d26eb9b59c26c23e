"""Texts as vectors of unit length, made in threads of their own: the event loop never waits for CPU work.

types          what an embedder is, and what is said when there is none
description    what is known of a model before it is loaded: its fingerprint, and what it can read
scripts        which scripts a text is written in

onnx           a model: a folder, run by ONNX Runtime
minilm         the one of them that comes along
transformer    a model: whatever sentence-transformers runs

desk           texts in, vectors out: deadline, breaker, bounded waiting, work that is shared
thread         blocking calls, beside the event loop
running        a model in threads: loading, and asking it
threaded       an embedder: such a model
pool           an embedder: an engine that serves vectors
"""
