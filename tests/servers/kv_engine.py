"""An engine's prefix cache as vLLM keeps and tells of it, written as plainly as can be, to compare the index with."""

import msgspec

from caches.chain import Chain
from caches.tokens import root, token_chain

SECRET = b"s" * 32


def roots(lora, salt):
    return root(SECRET, lora, salt)


def chain_of(tokens, salt=None, lora=None):
    return Chain.unpack(token_chain(roots(lora, salt), tokens))


class Engine:
    """Blocks by all that they stand for; a block may be there several times. `out`: the batches that it has published."""

    def __init__(self, block=32, clock=0.0, keep=10_000):
        self.block = block
        self.cached = []  # (salt, tokens up to the block's end), the oldest first
        self.out = []
        self.clock = clock
        self.keep = keep

    def publish(self, *events):
        self.clock += 1.0
        self.out.append(msgspec.msgpack.encode([self.clock, list(events), 0]))

    def name(self, key):
        return hash(key) & (2**64 - 1)

    def held(self, tokens, salt=None):
        """Tokens that it would not compute."""
        for end in range(self.block, len(tokens) + 1, self.block):
            if (salt, tuple(tokens[:end])) not in self.cached:
                return end - self.block
        return len(tokens) // self.block * self.block

    def compute(self, tokens, salt=None):
        begin = self.held(tokens, salt)
        end = len(tokens) // self.block * self.block
        if begin == end:
            return
        keys = [(salt, tuple(tokens[:at])) for at in range(begin + self.block, end + 1, self.block)]
        self.cached += keys
        extras = [None] * len(keys)
        if not begin and salt is not None:
            extras[0] = [salt]
        event = {
            "type": "BlockStored",
            "block_hashes": [self.name(key) for key in keys],
            "parent_block_hash": self.name((salt, tuple(tokens[:begin]))) if begin else None,
            "token_ids": list(tokens[begin:end]), "block_size": self.block, "lora_id": None, "medium": "GPU", "lora_name": None,
            "extra_keys": extras, "group_idx": 0, "kv_cache_spec_kind": "full_attention",
        }  # fmt: skip
        self.publish(event)

    def evict(self, at):
        if self.cached:
            key = self.cached.pop(at % len(self.cached))
            self.publish({"type": "BlockRemoved", "block_hashes": [self.name(key)], "medium": "GPU", "group_idx": 0})

    def clear(self):
        self.cached = []
        self.publish({"type": "AllBlocksCleared"})

    def replay(self, start):
        """(Number, batch) of what it still has from there on."""
        first = max(start, len(self.out) - self.keep)
        return list(enumerate(self.out))[first:]
