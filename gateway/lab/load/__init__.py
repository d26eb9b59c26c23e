"""An open-loop load generator for OpenAI-compatible endpoints: `tiergate load`.

    arrivals, traces    when a request is due, and how long it is
    prompts, bodies     what it says
    offering            sends each when it is due, whatever became of those before
    sender, reading     one request, and the clock at every piece of its answer
    measures, report    what came of them all: table, JSON, picture

Rules:
- A server that slows down does not slow the arrivals down; and latency counts from when a request was due, not from when
  this program got round to sending it. (Otherwise a stall hides all the requests that it would have hit: Gil Tene's
  "coordinated omission".)
- This program measures itself too: how late it sent, how long its event loop stood still, what CPU it took; and says when
  that is not small against what it measured.
- What was not sent, was cut or went wrong is counted by name, and fails the goodput. No key, header value or prompt is ever
  part of what is printed or written.
"""
