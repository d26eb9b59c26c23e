"""A cross-encoder for the semantic cache's verifier, trained on data that anybody may use: `make cross-encoder`.

groups.txt, slots    meanings in several wordings, with near misses beside them: written for this project
edits                rules that change a question's manner (one answer still serves) or its matter (none does)
data                 pairs to train on, to choose a threshold with, and to tell the figures of
net                  MiniLM over two texts, in torch
graph                the same for ONNX Runtime, int8
train                all of it: a folder for `verifier: {kind: onnx, path: …}`
"""
