"""Two pools of a simulated fleet, a cheap and a dear one, and the product's own decisions in front of them.

labels   outcomes of a weak and a strong model on real prompts, and what a classifier that never saw them makes of each
work     a trace whose requests are such prompts: a conversation keeps the one that it began with
world    the pools: the product's scheduler, page of loads, table of conversations and `decide`; engines that are simulated
study    loads x policies x seeds, paired
"""
