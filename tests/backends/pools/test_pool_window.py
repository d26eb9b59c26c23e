from hypothesis import given, settings
from hypothesis import strategies as st

from backends.budget import RetryBudget
from backends.window import Window

STEPS = st.lists(st.tuples(st.floats(0, 4), st.integers(1, 60)), max_size=60)


@settings(deadline=None)
@given(STEPS, st.integers(1, 12))
def test_window_counts_what_is_young_and_forgets_what_is_old(steps, seconds):
    """A window of n bins counts everything younger than n - 1 seconds and nothing older than n."""
    window, times, now = Window(seconds), [], 100.0
    for pause, count in steps:
        now += pause
        for _ in range(count):
            window.add(now)
        times += [now] * count
        assert sum(now - at < seconds - 1 for at in times) <= window.count(now) <= sum(now - at <= seconds for at in times)


def test_window_survives_a_clock_that_goes_back():
    """A clock that goes back neither empties a window nor breaks it."""
    window = Window(10)
    window.add(50.0)
    window.add(20.0)
    assert window.count(19.0) == 2
    assert window.count(59.9) == 2
    assert window.count(60.0) == 0


def test_window_forgets_all_after_a_long_pause_in_constant_memory():
    """After any pause the window is empty, and it never grows."""
    window = Window(10)
    for second in range(1000):
        window.add(second)
    assert window.count(1e12) == 0
    assert len(window._bins) == 10


def test_a_cleared_window_counts_on():
    """Clearing forgets the counts but not the time."""
    window = Window(10)
    window.add(5.0)
    window.clear()
    window.add(5.5)
    assert window.count(6.0) == 1


def within(events, now):
    return sum(count for at, count in events if now - at < 10)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 700), st.integers(0, 200)), max_size=20))
def test_granted_retries_keep_their_bound_in_every_ten_seconds(steps):
    """At every grant the retries of the last ten seconds are at most 100 or a fifth of the requests, whatever the order."""
    budget, requests, retries, now = RetryBudget(), [], [], 100.0
    for pause, fresh, wanted in steps:
        now += pause
        requests.append((now, fresh))
        for _ in range(fresh):
            budget.attempt(now)
        granted = 0
        for _ in range(wanted):
            if budget.may_retry(now):
                budget.attempt(now)
                granted += 1
        retries.append((now, granted))
        assert granted == 0 or within(retries, now) <= max(100, 0.2 * within(requests, now))


def test_an_endless_retry_loop_is_cut():
    """Who retries without end gets 100 retries in ten seconds and then none, until time has passed."""
    budget = RetryBudget()
    assert sum(budget.may_retry(50.0) for _ in range(10_000)) == 100
    assert not budget.may_retry(59.9)
    assert budget.may_retry(61.0)


def test_a_busy_pool_may_spend_a_fifth():
    """With many requests the budget is a fifth of them, and the attempts of retries do not add to it."""
    budget = RetryBudget()
    for _ in range(10_000):
        budget.attempt(50.0)
    granted = 0
    while budget.may_retry(50.5):
        budget.attempt(50.5)
        granted += 1
    assert granted == 2000
