"""`/admin`: the operator's calls, under the admin key. Without one in the config there is no `/admin`.

    front    who asks: the key, and what a browser may do with it
    bridge   one of our requests through an ASGI application, and its answer back
    api      the calls, as a FastAPI application: it describes itself at `/admin/openapi.json` and `/admin/docs`
    desk     what the calls look at and change
    shapes   what they take and give

FastAPI costs half a second of start and some 20 MB: `api` and `shapes` are loaded only when the config has an admin key.
"""

from gateway.admin.bridge import Answer, Application, Call, Loaded
from gateway.admin.front import Admin

__all__ = ["Admin", "Answer", "Application", "Call", "Loaded"]
