"""What programs do with the OpenAI SDK, in whichever of its major versions runs this."""

from __future__ import annotations

import openai_chat
import openai_rest
import openai_tools
from record import run

if __name__ == "__main__":
    run((*openai_chat.CASES, *openai_tools.CASES, *openai_rest.CASES))
