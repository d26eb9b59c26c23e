"""A provider outside the fleet, through the litellm library: for overflow and for fallback.

    client      an `Upstream`: a request's bytes in, an answer in OpenAI's bytes out, under our deadlines
    answer      that answer, pulled chunk by chunk
    arguments   which fields of a request reach the library: an allow-list
    schemas     which JSON schemas would grow without bound in the library
    events      what the library gives back, as the bytes of OpenAI's API
    failures    what the library raises, as the answer that an OpenAI server would have given
    library     the one module that imports litellm, in a thread, when a config uses it

Rules: litellm translates and sends, and nothing else: no retries, callbacks, telemetry, downloads or log lines of its own.
A tenant chooses what is said to the model, never where it is sent, with which key, or what the library does besides.
"""
