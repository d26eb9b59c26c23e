"""Several workers, one owner of what decisions rest on: the messages between them and the two ends that speak them."""
