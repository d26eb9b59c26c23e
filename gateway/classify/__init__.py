"""Classifiers that have to be awaited.

remote      an HTTP classifier, asked for a number
examples    how like the operator's own examples of each tier an ask is: where the embedder is, and from elsewhere
"""
