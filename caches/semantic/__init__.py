"""Answers that serve other questions than the one they were made for.

eligible   which questions may be looked up at all
decision   may the answer to one question serve another?
"""
