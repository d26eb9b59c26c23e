"""The keys `tls` of config.yaml: what the listener shows, and what servers that are asked must show."""
# ruff: noqa: RUF009 - key() and its siblings return dataclasses.field(), which is what belongs there

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import types as t
from gateway.config.fields import key, required
from gateway.config.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    cert: t.File = required("The certificate and its chain, PEM. A renewed file is taken up without a restart.")
    key_password: t.HiddenText = key(Secret(), "The key's password, if it has one.")
    client_ca: t.File | None = key(None, "CAs whose clients alone may connect, PEM; null: no client certificate is asked for.")
    key: t.File = required("The certificate's private key, PEM.")  # last: below it `key` would be this one


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTls:
    ca: t.File | None = key(None, "CAs to trust instead of the system's, PEM.")
    cert: t.File | None = key(None, "A client certificate to show, PEM.")
    key_password: t.HiddenText = key(Secret(), "The key's password, if it has one.")
    verify: bool = key(True, "Check the server's certificate. `false` trusts whoever answers.")
    server_name: t.Host | None = key(None, "The name that the certificate must be for; null: the URL's host.")
    key: t.File | None = key(None, "The private key of `cert`, PEM; null: it is in the same file.")
