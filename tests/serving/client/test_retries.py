import pytest

from lci_tf.serving.client import retries
from lci_tf.serving.client.retries import ServerError


@pytest.fixture
def clock(monkeypatch):
    """A clock that only pauses move; the pauses."""
    pauses = []
    monkeypatch.setattr(retries.time, "monotonic", lambda: sum(pauses))
    monkeypatch.setattr(retries.time, "sleep", pauses.append)
    return pauses


def failing(code="UNAVAILABLE"):
    def request(seconds):
        request.left.append(seconds)
        raise ServerError(code, "no")

    request.left = []
    return request


def test_pauses_double_up_to_a_limit_with_jitter(clock):
    told = []
    with pytest.raises(ServerError):
        retries.ask(failing(), deadline=1000, on_retry=told.append)
    assert len(clock) > 200 and len(told) == 1
    for attempt, pause in enumerate(clock[:100]):
        longest = min(0.1 * 2**attempt, 5)
        assert longest / 2 <= pause <= longest
    assert len({round(pause / min(0.1 * 2**i, 5), 6) for i, pause in enumerate(clock[:100])}) > 50


def test_no_pause_leads_beyond_the_deadline(clock):
    request = failing()
    with pytest.raises(ServerError):
        retries.ask(request, deadline=2, on_retry=lambda error: None)
    assert 1.9 < sum(clock) < 2
    assert request.left == [2 - sum(clock[:i]) for i in range(len(clock) + 1)]  # each is told what is left


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "DEADLINE_EXCEEDED", "UNKNOWN"])
def test_only_passing_failures_are_retried(clock, code):
    request = failing(code)
    with pytest.raises(ServerError):
        retries.ask(request, deadline=60, on_retry=None)
    assert len(request.left) == 1 and not clock


def test_a_last_try_that_the_deadline_cuts_off_does_not_hide_why_it_was_needed(clock):
    def request(seconds):
        raise ServerError("RESOURCE_EXHAUSTED", "busy") if seconds > 0.1 else ServerError("DEADLINE_EXCEEDED", "late")

    with pytest.raises(ServerError, match="busy"):
        retries.ask(request, deadline=2, on_retry=lambda error: None)
    with pytest.raises(ServerError, match="late"):
        retries.ask(request, deadline=0.05, on_retry=lambda error: None)
