"""Texts as vectors of unit length, made in threads of their own: the event loop never waits for CPU work.

types    what an embedder is, and what is said when there is none
"""
