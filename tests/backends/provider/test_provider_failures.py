"""What the library raises, told by name, becomes what an OpenAI server would have done."""

import importlib.util
import inspect
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_talk import SECRET

from backends.errors import BadResponse, ConnectFailed, ConnectionBroken, UpstreamError, UpstreamTimeout
from backends.litellm.failures import BY_STATUS, STATUSES, broken, failure_of


def exception(name, message="text", base=Exception, **attributes):
    """An exception of that name, as the library has one."""
    error = type(name, (base,), {})(message)
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def caused(error, *names):
    """The same, with causes of these names behind it."""
    inner = error
    for name in names:
        inner.__cause__ = exception(name)
        inner = inner.__cause__
    return error


def refused(error):
    found = failure_of(error, (SECRET,))
    assert not isinstance(found, UpstreamError)
    return found.status, json.loads(found.body)["error"], dict(found.headers)


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_the_table_names_every_exception_of_the_library():
    """One that a new version brings is found here, not by a client; one that it dropped, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from backends.litellm.library import load_litellm

        load_litellm()
        exceptions = importlib.import_module("litellm.exceptions")
    known = {
        name for name, kind in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == exceptions.__name__
    }  # fmt: skip
    assert known == set(STATUSES)


@pytest.mark.parametrize("name", sorted(STATUSES))
def test_every_exception_has_a_status(name):
    """Its own, or the one that it carries; one that derives from it has the same."""
    error = exception("New", base=type(name, (Exception,), {}), status_code=418)
    assert refused(error)[0] == (STATUSES[name] if STATUSES[name] != BY_STATUS else 418)


@pytest.mark.parametrize("status", [None, "400", 200, 99, 600, 10**9])
def test_a_status_that_is_none(status):
    """What cannot be a status of an error is a 500."""
    assert refused(exception("APIError", status_code=status))[0] == 500


@pytest.mark.parametrize(
    ("causes", "kind", "sent"),
    [
        (("OpenAIError", "APIConnectionError", "ConnectError"), ConnectFailed, False),
        (("APIConnectionError", "ClientConnectorDNSError", "gaierror"), ConnectFailed, False),
        (("APITimeoutError", "ConnectTimeout"), UpstreamTimeout, False),
        (("APITimeoutError", "ReadTimeout"), UpstreamTimeout, True),
        (("OpenAIError", "ReadError"), ConnectionBroken, True),
        (("RemoteProtocolError",), ConnectionBroken, True),
    ],
)
def test_a_connection_that_failed(causes, kind, sent):
    """The causes tell it, where the library says InternalServerError; and whether anything was sent."""
    found = failure_of(caused(exception("InternalServerError", f"with {SECRET}"), *causes), ())
    assert type(found) is kind
    assert found.sent is sent
    assert SECRET not in str(found)


def test_a_timeout_that_the_provider_answered():
    """A 504 of the provider is its answer, not a deadline of ours."""
    assert isinstance(failure_of(exception("Timeout"), ()), UpstreamTimeout)
    assert refused(caused(exception("Timeout"), "APIStatusError", "HTTPStatusError"))[0] == 504


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_provider_says_of_the_request(status):
    """It is passed on, with the field and the code, in OpenAI's form."""
    body = {"message": "temperature is too high", "param": "temperature", "code": "bad", "type": "x"}
    error = exception("BadRequestError", "litellm.BadRequestError: OpenAIException - ...", status_code=status, body=body)
    told = {"message": "temperature is too high", "type": "invalid_request_error", "param": "temperature", "code": "bad"}
    assert refused(error)[:2] == (status, told)


@pytest.mark.parametrize(
    "message",
    [
        "litellm.BadRequestError: OpenAIException - too high",
        "litellm.ContentPolicyViolationError: litellm.BadRequestError: AzureException - too high",
        "too high",
    ],
)
def test_the_librarys_own_prefixes_are_cut(message):
    """Where the provider's error object was not kept, its text is."""
    assert refused(exception("BadRequestError", message, status_code=400))[1]["message"] == "too high"


def test_a_context_error_has_its_code():
    """Told by class or by code: the gateway knows it as a prompt that is too long."""
    for error in (
        exception("ContextWindowExceededError", status_code=400),
        exception("BadRequestError", status_code=400, body={"code": "context_length_exceeded"}),
    ):
        assert refused(error)[1]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "name", ["AuthenticationError", "PermissionDeniedError", "RateLimitError", "InternalServerError", "Unheard"]
)
def test_other_messages_are_ours(name):
    """Nothing of the library's text is shown where no client needs it."""
    status, error, _ = refused(exception(name, f"litellm: key {SECRET} at https://x.example"))
    assert status != 400
    assert SECRET not in error["message"]
    assert "example" not in error["message"]


@pytest.mark.parametrize(
    ("value", "kept"), [("7", True), ("Wed, 21 Oct 2026 07:28:00 GMT", True), ("7\r\nx: y", False), ("9" * 41, False)]
)
def test_the_time_to_come_back(value, kept):
    """It is kept where it can be a header, and only for what may heal."""
    response = type("Response", (), {"headers": {"retry-after": value}})()
    assert (b"retry-after" in refused(exception("RateLimitError", response=response))[2]) is kept
    assert b"retry-after" not in refused(exception("AuthenticationError", response=response))[2]


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abc.def", "sk-proj-abcdefgh123", "AIzaSyA1234567890abcdef", "AKIAIOSFODNN7EXAMPLE", "api_key=abcdef",
        "'api-key': 'abcdef'", "password: hunter2", "https://user:pass@host/v1?key=x", "eyJhbGciOi.eyJzdWIiOi.sig",
    ],
)  # fmt: skip
def test_what_looks_like_a_key_is_cut_out(secret):
    """Also one that the config does not know, since the library may take it from its environment."""
    _, error, _ = refused(exception("BadRequestError", f"bad thing {secret} here", status_code=400))
    assert secret not in error["message"]
    assert error["message"].startswith("bad thing ")


@given(st.text(), st.text())
def test_a_configured_secret_is_never_told(before, after):
    """Wherever it stands in a message."""
    _, error, _ = refused(exception("BadRequestError", before + SECRET + after, status_code=400))
    assert SECRET not in error["message"]
    assert len(error["message"]) <= 1000


def test_a_wrapper_is_looked_into():
    """What failed in the middle of a stream is wrapped once more; what is meant is inside."""
    inner = exception("RateLimitError")
    assert refused(exception("MidStreamFallbackError", original_exception=inner))[0] == 429
    ring = exception("MidStreamFallbackError", status_code=503)
    ring.original_exception = ring
    assert refused(ring)[0] == 503


@pytest.mark.parametrize(
    ("code", "status"), [(500, 500), (429, 429), (400, 400), (None, 500), ("busy", 500), (7, 500), (True, 500)]
)
def test_an_error_event_in_a_stream_is_the_providers_answer(code, status):
    """The library takes it for a lost connection, which it is not, and neither is it a fault of the library's."""
    event = exception("APIError", body={"message": "no room", "code": code})
    lost = exception("APIConnectionError")
    lost.__cause__ = event
    assert refused(exception("MidStreamFallbackError", original_exception=lost))[0] == status
    assert refused(lost)[0] == status
    assert refused(exception("APIConnectionError"))[0] == 501


def test_a_ring_of_causes_ends():
    """Exceptions that name each other as their cause do not hold us up."""
    one, other = exception("InternalServerError"), exception("InternalServerError")
    one.__cause__, other.__cause__ = other, one
    assert refused(one)[0] == 500


def test_what_is_unheard_of_is_the_librarys_fault(caplog):
    """It counts neither against the provider nor against the request, and the log names its kind only."""
    assert refused(caused(exception("KeyError", f"'{SECRET}'"), "ValueError"))[0] == 501
    assert "KeyError, from ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_failures_of_ours_pass():
    """They are what is looked for already."""
    error = BadResponse("no")
    assert failure_of(error, ()) is error
    assert broken(error) is error
    assert isinstance(broken(exception("RateLimitError")), ConnectionBroken)


@pytest.mark.parametrize("name", ["ReadTimeout", "PoolTimeout", "WriteTimeout", "APITimeoutError", "Timeout"])
def test_a_timeout_of_the_librarys_own_is_not_the_end_of_the_request(name):
    """Only our own timer says that a request's time is over: else no other replica would be asked, and the client be charged."""
    found = failure_of(exception(name), ())
    assert isinstance(found, UpstreamTimeout)
    assert found.phase == "provider"
