"""`tiergate up`: the local trial. Two backends and the gateway on this machine, one command, Ctrl-C ends all of it.

command     flags → a plan, or one clear line about what is missing
engines     which programs play the two tiers: llama.cpp in a process, vLLM, or look-alikes without a model
settings    the config.yaml that the gateway is started with, and the keys made for this one trial
trial       the order: backends, a dummy request each, gateway, report, wait
processes   a child process as a scope: entering starts it, leaving ends it
child       the first code of every child: it ends when its parent does, however the parent ended
llamacpp    one llama.cpp server, the program of the small engine
probe       the few bytes of HTTP that ask whether somebody is there
report      what a person, or with --json a script, is told at the end
"""
