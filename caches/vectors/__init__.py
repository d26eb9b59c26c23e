"""Where vectors are kept: Qdrant, in this process or as a server.

types    what is kept, and what a store can do
"""
