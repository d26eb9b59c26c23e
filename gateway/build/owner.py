"""What owns the state that decisions rest on: the leaves, wired. In the one process there is, or in the dispatcher."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import urandom

import msgspec

from backends.adaptive import Adaptive
from backends.balance import make_balance
from backends.breaker import Breaker, BreakerRules
from backends.client import Client, Origin
from backends.governor import Fixed, Governor
from backends.health import HealthMonitor
from backends.litellm.client import Deployment, LiteLLMClient
from backends.litellm.library import Library
from backends.pool import Pool
from backends.prewarm import Prewarm, Prompt
from backends.replica import Replica
from backends.warmup import WarmUp
from caches.both import Both
from caches.chain import Chain
from caches.key import entry_id
from caches.memory import MemoryStore
from caches.null import NullStore
from caches.orders import NoOrders, Orders
from caches.precise import PreciseIndex
from caches.semantic.null import NullSemantic
from caches.semantic.types import OwnedSemantic
from caches.tokens import root
from caches.types import ExactStore
from gateway.between.desk import Desk
from gateway.between.share import NoShare, Share, Shared
from gateway.between.words import Seal
from gateway.build.classify import rates_of
from gateway.build.learning import Keeps, KeepsNothing, NeverDue, Runs, journal_of, schedule_of
from gateway.classify.examples import Rates, RatesNothing
from gateway.config import Config
from gateway.config.certificates import client_context
from gateway.config.reserved_checks import promises
from gateway.config.schema import Model as ModelConfig
from gateway.config.schema import Replica as Spec
from gateway.config.tls import BackendTls
from gateway.discovery.make import make_source, pause_of
from gateway.discovery.watch import Watch
from gateway.dispatch.local import LocalDispatcher
from gateway.dispatch.placing import Placing, placing_of
from gateway.dispatch.precise import PrecisePlacing, precise_placing
from gateway.dispatch.types import Lane
from gateway.dispatch.unplaced import NoPlacing
from gateway.fleet import Fleet, Terms
from gateway.salts import salts_of
from gateway.warming import Warming, Warmings, warming_of
from limits.journal import Journal
from limits.memory import MemoryLimiter
from limits.places import ANYWHERE, Places
from limits.slots import Scheduler
from limits.types import LastingLimiter
from limits.vault import Vault
from limits.waiting import GiveWay, Order, QueueBounds, ReservedShare

Clock = Callable[[], float]


_FRESH = 3.5  # checks: so long what an engine told of itself is good for


@dataclass(frozen=True, slots=True)
class Ears:
    """Models that are placed by what engines say, and what follows those."""

    placings: Mapping[str, PrecisePlacing]
    listening: Runs | None

    async def run(self) -> None:
        """For ever, if there is anything to follow."""
        if self.listening is not None:
            await self.listening.run()


@dataclass(frozen=True, slots=True)
class Owner:
    """Everything that has one owner."""

    local: LocalDispatcher
    limiter: LastingLimiter
    exact: ExactStore
    lanes: dict[str, Lane]
    fleet: Fleet
    watches: list[Watch]
    monitor: HealthMonitor
    semantic: OwnedSemantic
    both: Both
    warmings: Warmings
    ears: Ears
    share: Share = field(default_factory=NoShare)
    journal: Keeps = field(default_factory=KeepsNothing)
    schedule: Runs = field(default_factory=NeverDue)
    rates: Rates = field(default_factory=RatesNothing)


def build_owner(config: Config, clock: Clock, wall: Clock, secret: bytes, vault: Vault | None = None) -> Owner:
    """`vault`: where balances outlive this process."""
    make = replica_maker(config)
    lanes = {model.name: _lane(config, model, make, clock, secret) for model in config.models}
    (exact, orders), limiter = _exact(config, wall, secret), _limiter(config, clock, wall, vault)
    warmings = _warmings(config, lanes, clock, secret)
    fleet = _fleet(config, lanes, make)
    monitor, watches = _monitor(config, lanes, clock), _watches(config, fleet)
    local = LocalDispatcher(limiter, exact, lanes)
    semantic: OwnedSemantic = NullSemantic()
    if config.any_semantic:
        from gateway.build.semantic import build_semantic  # noqa: PLC0415 - numpy and what needs it are loaded only where it is on

        semantic = build_semantic(config, local, exact, orders, clock, wall, secret)
    both = Both(exact, semantic, orders or NoOrders(), secret)
    share = _share(config, lanes, clock, secret)
    return Owner(
        local, limiter, exact, lanes, fleet, watches, monitor, semantic, both, warmings, _ears(lanes, fleet), share,
        journal_of(config), schedule_of(config), rates_of(config, semantic, local, clock),
    )  # fmt: skip


def _watches(config: Config, fleet: Fleet) -> list[Watch]:
    return [
        Watch(model.name, make_source(discover, model.tls), fleet, every=pause_of(discover))
        for model in config.models
        for discover in model.discover
    ]


def replica_maker(config: Config) -> Callable[[str, Spec], Replica]:
    """How every replica is built, whoever lists it. Those with the same TLS settings share a context: it takes 10 ms to make."""
    models = {model.name: model for model in config.models}
    contexts: dict[BackendTls, ssl.SSLContext] = {}

    def make(model: str, spec: Spec) -> Replica:
        tls = spec.tls or models[model].tls or BackendTls()
        origin, context = Origin.parse(spec.url), None
        if origin.scheme == "https":
            key = replace(tls, server_name=None)
            context = contexts.get(key) or contexts.setdefault(key, client_context(key))
        return Replica(
            spec.name,
            Client(origin, ssl_context=context, server_name=tls.server_name),
            breaker=_breaker(config),
            max_inflight=models[model].concurrency.max,
            api_key=spec.api_key.reveal() or None,
            governor=_governor(config, models[model]),
        )

    return make


def _governor(config: Config, model: ModelConfig) -> Governor:
    own = model.concurrency
    if own.kind == "fixed":
        return Fixed(own.tokens)
    return Adaptive(own.min, own.max, most_tokens=own.tokens, fresh=_FRESH * config.health.interval)


def _fleet(config: Config, lanes: dict[str, Lane], make: Callable[[str, Spec], Replica]) -> Fleet:
    terms = Terms(
        drain_timeout=config.fleet.drain_timeout,
        slow_start=config.fleet.slow_start or 0.0,
        warm_ups={model.name: warm_up for model in config.models if (warm_up := _warm_up(config, model)) is not None},
    )
    return Fleet(lanes, {model.name: model.replicas for model in config.models if model.kind == "openai"}, make, terms)


def _warm_up(config: Config, model: ModelConfig) -> WarmUp | None:
    """The smallest request that the engines of a model must be able to answer."""
    known: dict[str, tuple[str, dict[str, object]]] = {
        "chat": ("/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
        "completions": ("/completions", {"prompt": "Hi", "max_tokens": 1}),
        "embeddings": ("/embeddings", {"input": "Hi"}),
    }
    rules = config.fleet.warm_up
    for endpoint, (path, body) in known.items():
        if rules.enabled and endpoint in model.endpoints:
            return WarmUp(path, msgspec.json.encode({"model": model.served_name, **body}), rules.timeout, rules.attempts)
    return None


def _lane(config: Config, model: ModelConfig, make: Callable[[str, Spec], Replica], clock: Clock, secret: bytes) -> Lane:
    """One model: its replicas, its balance, the queue in front."""
    replicas = [make(model.name, replica) for replica in model.replicas]
    if model.kind == "litellm":
        replicas = [provider_of(config, model)]
    pool = Pool(model.name, replicas, make_balance(model.balance.kind, clock=clock), clock=clock)
    queue = config.queue
    bounds = QueueBounds(
        max_requests=queue.max_requests,
        max_bytes=queue.max_bytes,
        max_tokens=queue.max_tokens,
        max_wait=(queue.max_wait.realtime, queue.max_wait.standard, queue.max_wait.batch),
        weights=(queue.weights.realtime, queue.weights.standard, queue.weights.batch),
        refuse_early=queue.refuse_early,
    )
    own = queue.order
    order = Order(own.per_token or 0.0, own.cap, own.promote_after if own.classes == "strict" else None)
    preempt = queue.preempt
    give_way = None if preempt.kind == "never" else GiveWay(preempt.within, requeue=preempt.kind == "requeue")
    counted = model.concurrency.kind == "adaptive" or model.concurrency.tokens is not None
    places, shares = Places() if counted else ANYWHERE, _shares(config, model)
    scheduler = Scheduler(bounds, pool.capacity(), clock, order, reserved=shares, give_way=give_way, places=places)
    pool.on_capacity(scheduler.set_capacity)
    if counted:
        pool.count(scheduler)
    placing = _placing(model, pool, secret)
    if placing is None or model.kind == "litellm":
        return Lane(model.name, pool, scheduler)
    pool.on_metrics(placing.scraped)
    pool.on_leave(placing.left)
    return Lane(model.name, pool, scheduler, placing)


def _placing(model: ModelConfig, pool: Pool, secret: bytes) -> Placing | None:
    if model.balance.precise is None:
        return placing_of(model.name, pool.balance, model.balance.cache_tokens, pool.clock)
    index = PreciseIndex(partial(root, secret))
    return precise_placing(model.name, pool.balance, model.balance.cache_tokens, index, pool.clock)


def _ears(lanes: dict[str, Lane], fleet: Fleet) -> Ears:
    """Whoever follows what engines say of their caches."""
    placings = {name: lane.placing for name, lane in lanes.items() if isinstance(lane.placing, PrecisePlacing)}
    if not placings:
        return Ears({}, None)
    from gateway.dispatch.listening import Listening  # noqa: PLC0415 - an extra, loaded only where it is used

    return Ears(placings, Listening(placings, fleet))


def _warmings(config: Config, lanes: dict[str, Lane], clock: Clock, secret: bytes) -> Warmings:
    """What replicas read ahead, after whoever else hears of their metrics and their leaving."""
    salt, tenants = salts_of(config, secret), {tenant.name for tenant in config.tenants}
    found: dict[str, Warming] = {}
    for model in config.models:
        warming = warming_of(model, secret, salt, tenants, clock)
        if warming is not None:
            found[model.name] = warming
            lane, own = lanes[model.name], model.warm
            prewarm = lane.pool.prewarm = Prewarm(
                lane.pool, warming.prompts, max_tokens=own.max_tokens, timeout=own.timeout, clock=clock,
                warmed=partial(_warmed, lane.placing),
            )  # fmt: skip
            lane.pool.on_metrics(prewarm.scraped)
            lane.pool.on_leave(prewarm.left)
            lane.placing.on_lost = prewarm.lost
    return Warmings(found)


def _warmed(placing: NoPlacing, replica: str, prompt: Prompt) -> None:
    if isinstance(prompt.chain, Chain):
        placing.has(replica, prompt.chain, prompt.tokens)


def _shares(config: Config, model: ModelConfig) -> list[ReservedShare]:
    found = promises(config, model.name)
    return [ReservedShare(tenant.name, reserved.slots, reserved.tpm) for _, tenant, reserved in found]


def provider_of(config: Config, model: ModelConfig) -> Replica:
    """The one replica of kind litellm: named after the kind, since a provider is not ours to name."""
    own, times = model.litellm, config.timeouts_of(model)
    if own is None:
        raise ValueError("kind litellm without its section")
    deployment = Deployment(
        model=own.model,
        connect=times.connect,
        total=times.total,
        api_key=own.api_key.reveal(),
        api_base=own.api_base,
        drop_params=own.drop_params,
        params={name: value.reveal() for name, value in own.params.items()},
    )
    client = LiteLLMClient(deployment, Library())
    most, governor = model.concurrency.max, _governor(config, model)
    return Replica("litellm", client, breaker=_breaker(config), max_inflight=most, governor=governor)


def _breaker(config: Config) -> Breaker:
    breaker = config.breaker
    rules = BreakerRules(failures=breaker.failures, open_seconds=breaker.open, max_open_seconds=breaker.max_open)
    return Breaker(random.Random(), rules)


def _monitor(config: Config, lanes: dict[str, Lane], clock: Clock) -> HealthMonitor:
    health = config.health
    pools = [lane.pool for lane in lanes.values()]
    return HealthMonitor(pools, interval=health.interval, timeout=health.timeout, fall=health.fall, rise=health.rise, clock=clock)


def _exact(config: Config, wall: Clock, secret: bytes) -> tuple[ExactStore, Orders | None]:
    """The store, and where it is shared, how other gateways are told what goes."""
    exact = config.cache.exact
    if not exact.enabled:
        return NullStore(), None
    if exact.store == "memory":
        return MemoryStore(exact.max_bytes, wall, max_entry=exact.max_entry), None
    from caches.redis.orders import RedisOrders  # noqa: PLC0415 - an extra, loaded only where it is used
    from caches.redis.store import RedisStore  # noqa: PLC0415 - as above

    shared = RedisStore(
        config.redis.url.reveal(), lambda key: entry_id(secret, key), max_entry=exact.max_entry, deadline=config.redis.timeout,
        clock=wall,
    )  # fmt: skip
    if exact.store == "redis":
        return shared, RedisOrders(shared)
    from caches.two_level import TwoLevelStore  # noqa: PLC0415 - as above

    return TwoLevelStore(shared, exact.max_bytes, max_entry=exact.max_entry, clock=wall), RedisOrders(shared)


def _share(config: Config, lanes: dict[str, Lane], clock: Clock, secret: bytes) -> Share:
    if config.fleet.share == "none":
        return NoShare()
    from caches.redis.bus import CHANNEL, Bus  # noqa: PLC0415 - an extra, loaded only where it is used

    seal, fleets = Seal(secret), [model.name for model in config.models if model.kind == "openai"]
    found = [(lane.pool, lane.placing if isinstance(lane.placing, Placing) else None) for lane in map(lanes.__getitem__, fleets)]
    channel = partial(Bus, config.redis.url.reveal(), CHANNEL + seal.channel, rng=random.Random())
    share = Shared(Desk(seal, urandom(8), found), channel, clock)
    for pool, placing in found:
        if placing is not None:
            pool.on_metrics(share.scraped)
    return share


def _limiter(config: Config, clock: Clock, wall: Clock, vault: Vault | None) -> LastingLimiter:
    limits = config.limits
    if limits.store == "memory":
        journal = Journal(limits.budgets.path) if config.any_budget else None
        return MemoryLimiter(clock, vault, wall=wall, journal=journal)
    from limits.redis.limiter import RedisLimiter  # noqa: PLC0415 - an extra, loaded only where it is used

    return RedisLimiter(
        config.redis.url.reveal(),
        on_outage=limits.on_outage,
        instances=limits.instances,
        deadline=limits.timeout,
        clock=clock,
        wall=wall,
        vault=vault,
    )
