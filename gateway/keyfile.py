"""The file of API keys that the CLI makes: who may call, with no secret on disk.

Rules: it holds hashes, never keys; it is 0600, and belongs to who owns the directory even when root
writes it; it is replaced as a whole (written aside, synced, renamed) under a lock, so that a reader never sees half of
it and two writers never lose each other's change.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gateway import filelock
from limits.types import BURST, LONGEST_BURST, SHORTEST_BURST

VERSION = 1
MAX_BYTES = 16 * 2**20
_SHOWN = len("tg-Ab12Cd")
_LONGEST_LIFE = timedelta(days=36500)

_Word = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:@+\-]{0,199}\Z")]
_Pattern = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._:@+/\-*?\[\]!]{1,200}\Z")]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=10**15)] | None


class KeyFileError(Exception):
    """The file cannot be used; the message is one line and names the file."""


class UnknownKeyError(Exception):
    """No key with this id."""


class DeadKeyError(Exception):
    """The key is revoked or expired already."""


class KeyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One key as it is on disk. `prefix` is what people recognise it by; the key itself is not here."""

    id: _Word
    tenant: _Word
    prefix: Annotated[str, msgspec.Meta(max_length=16)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    created_at: _Moment
    expires_at: _Moment | None = None
    revoked_at: _Moment | None = None
    rpm: _Limit = None
    tpm: _Limit = None
    max_parallel: _Limit = None
    burst: Annotated[float, msgspec.Meta(ge=SHORTEST_BURST, le=LONGEST_BURST)] = BURST
    models: tuple[_Pattern, ...] | None = None
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""

    def __repr__(self) -> str:
        return f"KeyRecord(id={self.id!r}, tenant={self.tenant!r})"

    def status(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at.timestamp() <= now else "active"

    def public(self, now: float) -> dict[str, Any]:
        """What may be printed: everything but the hash."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in shown.items() if name != "sha256"} | {"status": self.status(now)}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a new key may do, and for how long; None is no limit of its own. `burst` is as in `limits.types.Scope`."""

    expires_at: datetime | None = None
    rpm: int | None = None
    tpm: int | None = None
    max_parallel: int | None = None
    models: tuple[str, ...] | None = None
    name: str = ""
    burst: float = BURST


class _Document(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    version: int
    keys: list[KeyRecord]


def digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def decode(data: bytes, path: Path) -> list[KeyRecord]:
    """The records in `data`; ids and hashes are unique."""
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise KeyFileError(f"{path}: not a key file: {error}") from None
    if document.version != VERSION:
        raise KeyFileError(f"{path}: version {document.version} is not known; this program writes version {VERSION}")
    moments = (moment for key in document.keys for moment in (key.created_at, key.expires_at, key.revoked_at))
    if not all(moment is None or 1970 <= moment.year <= 9998 for moment in moments):
        raise KeyFileError(f"{path}: a moment is not from 1970 to 9998")
    for what, values in (("id", [key.id for key in document.keys]), ("sha256", [key.sha256 for key in document.keys])):
        if len(set(values)) != len(values):
            raise KeyFileError(f"{path}: two keys have the same {what}")
    return document.keys


class KeyFile:
    """Changes the file. Each change reads it anew under the lock. `token` makes a secret of 256 bits."""

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, token: Callable[[int], str] = secrets.token_urlsafe
    ) -> None:
        self._path = path
        self._clock = clock
        self._token = token

    def records(self) -> list[KeyRecord]:
        """All of them, dead ones included; a file that is not there has none yet."""
        try:
            return decode(read(self._path), self._path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KeyFileError(f"{self._path}: cannot be read: {error.strerror or error}") from None

    def create(self, tenant: str, terms: Terms) -> tuple[KeyRecord, str]:
        """A new key of `tenant`, and its secret, which nobody can show again."""
        with self._changing() as records:
            record, secret = self._make(tenant, terms, records)
            records.append(record)
        return record, secret

    def revoke(self, key_id: str) -> KeyRecord:
        """From the next look at the file on, the key is refused. Again is no error."""
        with self._changing() as records:
            index = _index(records, key_id)
            if records[index].revoked_at is None:
                records[index] = _changed(records[index], revoked_at=self._now())
            return records[index]

    def rotate(self, key_id: str, overlap: float, expires_at: datetime | None = None) -> tuple[KeyRecord, KeyRecord, str]:
        """A new key with the old one's tenant, limits and name; the old one lives for `overlap` seconds more.

        Without `expires_at` the new key gets the lifetime that the old one was made with.
        """
        with self._changing() as records:
            index = _index(records, key_id)
            old, now = records[index], self._now()
            if old.status(now.timestamp()) != "active":
                raise DeadKeyError(f"the key {key_id} is {old.status(now.timestamp())}: create a new one")
            if expires_at is None and old.expires_at is not None:
                expires_at = now + min(old.expires_at - old.created_at, _LONGEST_LIFE)
            terms = Terms(expires_at, old.rpm, old.tpm, old.max_parallel, old.models, old.name, old.burst)
            new, secret = self._make(old.tenant, terms, records)
            end = datetime.fromtimestamp(now.timestamp() + overlap, UTC)
            records[index] = _changed(old, expires_at=min(end, old.expires_at or end))
            records.append(new)
            return records[index], new, secret

    def _make(self, tenant: str, terms: Terms, records: Collection[KeyRecord]) -> tuple[KeyRecord, str]:
        taken = {record.id for record in records}
        while (key_id := f"key-{secrets.token_hex(5)}") in taken:
            pass
        secret = f"tg-{self._token(32)}"
        record = KeyRecord(
            id=key_id,
            tenant=tenant,
            prefix=secret[:_SHOWN],
            sha256=digest(secret.encode()),
            created_at=self._now(),
            expires_at=terms.expires_at,
            rpm=terms.rpm,
            tpm=terms.tpm,
            max_parallel=terms.max_parallel,
            burst=terms.burst,
            models=terms.models,
            name=terms.name,
        )
        return record, secret

    def _now(self) -> datetime:
        return datetime.fromtimestamp(int(self._clock()), UTC)

    @contextmanager
    def _changing(self) -> Iterator[list[KeyRecord]]:
        """The records, to be changed in place; written when the block ends well."""
        try:
            with filelock.locked(self._path):
                records = self.records()
                yield records
                data = msgspec.json.format(msgspec.json.encode(_Document(version=VERSION, keys=records)), indent=2)
                decode(data, self._path)  # what cannot be read back must not be written
                filelock.replace(self._path, data + b"\n")
        except OSError as error:
            raise KeyFileError(f"{self._path}: cannot be changed: {error.strerror or error}") from None


def read(path: Path) -> bytes:
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would never end
        raise KeyFileError(f"{path}: not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise KeyFileError(f"{path}: larger than {MAX_BYTES // 2**20} MiB")
    return data


def _changed(record: KeyRecord, **fields: datetime) -> KeyRecord:
    changed: KeyRecord = msgspec.structs.replace(record, **fields)
    return changed


def _index(records: Collection[KeyRecord], key_id: str) -> int:
    for index, record in enumerate(records):
        if record.id == key_id:
            return index
    raise UnknownKeyError(key_id)
