"""Forms: what is read, what is refused, and that nothing but the model's name changes on the way."""

import email
import email.policy
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.multipart import boundary, edit, parse

TYPE = b"multipart/form-data; boundary=X"


def form(*parts, mark=b"X", end=b"--\r\n"):
    """A body of (disposition parameters, value) parts."""
    made = b"".join(b"--%b\r\nContent-Disposition: form-data%b\r\n\r\n%b\r\n" % (mark, head, value) for head, value in parts)
    return made + b"--" + mark + end


MODEL = (b'; name="model"', b"small")
FILE = (b'; name="file"; filename="a.wav"', b"RIFF\0\r\n\r\n--not-it\xff")


def test_the_model_is_read_and_replaced_alone():
    """The one field changes, every other byte stays; a name that is right already costs no copy."""
    raw = form(FILE, MODEL, (b"; name=stream", b"True"))
    ask = parse(raw, TYPE)
    assert (ask.model, ask.stream) == ("small", True)
    assert edit(ask, "org/served") == raw.replace(b"\r\nsmall\r\n", b"\r\norg/served\r\n")
    assert edit(ask, "small") is raw


def test_the_path_may_name_the_model():
    """Azure's form: the path has the say over a field that is there, and a field is put in front where there is none."""
    raw = form(FILE, MODEL)
    ask = parse(raw, TYPE, "deployment")
    assert ask.model == "deployment"
    assert edit(ask, "served") == raw.replace(b"\r\nsmall\r\n", b"\r\nserved\r\n")
    bare = form(FILE)
    made = edit(parse(bare, TYPE, "deployment"), "served")
    assert made.endswith(bare)
    assert parse(made, TYPE).model == "served"


@pytest.mark.parametrize("value", [b"false", b"0", b"", b"nonsense", b"x" * 10_000])
def test_what_is_no_stream(value):
    """Everything but the words that vLLM takes for true is false."""
    assert parse(form(MODEL, (b'; name="stream"', value)), TYPE).stream is False


@pytest.mark.parametrize(
    "content_type",
    [
        b"multipart/form-data; boundary=X",
        b'Multipart/Form-Data;boundary="X"',
        b"multipart/form-data ; charset=UTF-8 ; boundary=X ",
    ],
)
def test_content_types(content_type):
    """Quoted or not, any case, with the one charset that names are read in."""
    assert boundary(content_type) == b"X"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (b"application/json", 415), (b"", 415), (b"multipart/mixed; boundary=X", 415), (b"multipart/form-data", 415),
        (b"multipart/form-data; boundary=", 400), (b"multipart/form-data; boundary=X; boundary=Y", 400),
        (b"multipart/form-data; boundary=X; charset=utf-16", 400), (b"multipart/form-data; boundary=" + b"x" * 71, 400),
        (b"multipart/form-data; boundary=X; x", 400), (b'multipart/form-data; boundary="a\\"b"', 400),
        (b'multipart/form-data; boundary="X "', 400), (b"multipart/form-data; foo=bar", 400), (b"multipart/form-data;", 400),
    ],
)  # fmt: skip
def test_content_types_that_are_refused(content_type, status):
    """No form is a 415; a boundary that is missing, doubled, overlong or beside something unknown a 400."""
    with pytest.raises(ApiError) as caught:
        boundary(content_type)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"--X", b"--X--", b"preamble\r\n" + form(MODEL), b"\r\n" + form(MODEL), form(MODEL) + b"epilogue",
        form(MODEL, end=b""), form(MODEL, end=b"--\n"), form(MODEL, MODEL),
        form(MODEL, (b'; name="stream"', b"1"), (b'; name="stream"', b"0")),
        form((b'; name="model"; filename="x"', b"small")), form((b'; name="mo\\del"', b"small"), MODEL),
        form((b'; name="a"; name="model"', b"x"), MODEL), form((b"; name*=utf-8''model", b"x"), MODEL),
        form((b'; filename="a\\"; name=\\"model"', b"x"), MODEL), form((b'; name="model', b"x"), MODEL), form((b"", b"x"), MODEL),
        form((b'; name="a"\r\n ; name="model"', b"x"), MODEL),
        form((b'; name="a"\r\nContent-Disposition: form-data; name="model"', b"x"), MODEL),
        form((b'; name="a"', b"x\r\n--Xmodel\r\n"), MODEL), form((b'; name="a"', b"x\r\n--X \r\n"), MODEL),
        b"--X\r\n\r\nsmall\r\n--X--", b'--X\r\nContent-Disposition: form-data; name="model"\r\n\r\n--X--',
        b'--X\nContent-Disposition: form-data; name="model"\n\nsmall\n--X--', form((b'; name="a"' + b" " * 9000, b"x"), MODEL),
        form(*[(b'; name="a"', b"x")] * 200, MODEL), form((b'; name="model"', b"")), form((b'; name="model"', b"a\r\nb")),
        form((b'; name="model"', b"\xff")), form((b'; name="model"', b"x" * 600)), form(FILE),
        form((b'; name="a"', b"x\r\n--X--\r\n--X\r\n"), MODEL),
    ],
)  # fmt: skip
def test_what_two_readers_could_read_in_two_ways(raw):
    """Every trick that shows one model to us and another to the backend is a 400."""
    with pytest.raises(ApiError) as caught:
        parse(raw, TYPE)
    assert caught.value.status == 400


MARKS = st.text("abcXYZ019'()+_,./:=?-", min_size=1, max_size=70).map(str.encode)
NAMES = st.text("abcdefg_[]", min_size=1, max_size=12).filter(lambda name: name not in ("model", "stream"))


@given(
    MARKS,
    st.lists(st.tuples(NAMES, st.binary(max_size=200), st.booleans()), max_size=6),
    st.text("abc/.:-é模", min_size=1, max_size=20),
    st.integers(0, 6),
)
def test_any_honest_form_is_read_as_the_standard_library_reads_it(mark, fields, model, place):
    """Whatever the boundary and the bytes of the fields: the same model as another reader's, and only that is replaced."""
    parts = [(b'; name="%b"%b' % (n.encode(), b'; filename="f"' if is_file else b""), v) for n, v, is_file in fields]
    parts.insert(min(place, len(parts)), (b'; name="model"', model.encode()))
    if any(b"\r\n--" + mark in b"\r\n" + value + b"\r\n" for _, value in parts):
        return
    raw, kind = form(*parts, mark=mark), b'multipart/form-data; boundary="%b"' % mark
    ask = parse(raw, kind)
    assert ask.model == model
    made = edit(ask, "served")
    assert read_model(made, kind) == "served"
    assert form(*[(h, b"served" if h == b'; name="model"' else v) for h, v in parts], mark=mark) == made


def read_model(raw, kind):
    message = email.message_from_bytes(b"content-type: " + kind + b"\r\n\r\n" + raw, policy=email.policy.HTTP)
    found = [part for part in message.iter_parts() if part.get_param("name", header="content-disposition") == "model"]
    assert len(found) == 1
    return found[0].get_payload(decode=True).decode()


def read(raw):
    try:
        return "form" if parse(raw, TYPE).model else "nothing"
    except ApiError as error:
        return error.status


@given(
    st.binary(max_size=400),
    st.lists(
        st.sampled_from([b"--X", b"\r\n", b"--", b'name="model"', b"Content-Disposition: form-data; ", b"\r\n\r\n", b"a"]),
        max_size=30,
    ),
)
def test_hostile_bytes_are_a_400_or_a_form(noise, pieces):
    """Any bytes at all: an ApiError 400, or a form that names a model."""
    for raw in (noise, b"".join(pieces), b"--X\r\n" + noise, form(MODEL)[:-6] + noise):
        assert read(raw) in ("form", 400)


def test_a_hostile_search_is_linear():
    """Sixteen megabytes that look like the boundary all the way do not take longer than reading them a few times."""
    mark = b"-" * 69 + b"a"
    near = b"\r\n" + b"-" * 70
    body = form(MODEL, (b'; name="file"; filename="f"', (near * (2**24 // len(near)))), mark=mark)
    started = time.process_time()
    assert parse(body, b"multipart/form-data; boundary=" + mark).model == "small"
    assert time.process_time() - started < 2
