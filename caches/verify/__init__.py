"""Would one answer serve two questions? A cross-encoder reads both at once and says how sure it is.

types          what a verifier is, and what is said when there is none
description    what a folder of a cross-encoder says of itself
onnx           such a folder, run by ONNX Runtime
crossencoder   a verifier: the model in a thread of its own, under a deadline and a breaker (`caches.embed.running`)
"""
