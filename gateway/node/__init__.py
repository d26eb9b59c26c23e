"""One machine's processes: the supervisor that forks them, and the sockets that the workers inherit."""
