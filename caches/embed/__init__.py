"""Texts as vectors of unit length, made in threads of their own: the event loop never waits for CPU work.

types          what an embedder is, and what is said when there is none
description    what is known of a model before it is loaded: its fingerprint, and what it can read
scripts        which scripts a text is written in
onnx           a folder with a model, run by ONNX Runtime
minilm         the one that comes along
"""
