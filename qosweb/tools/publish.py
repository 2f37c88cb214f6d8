"""``qosweb publish DIR``: uploads what is new in a folder, and makes the folder the current release of the site.

Neighbours: `admin_client`. Server: `qosweb.server.admin.release_routes`.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qosweb.errors import UsageError
from qosweb.releases.manifest import (
    FILES_MAX,
    Manifest,
    ManifestFile,
    check_path,
    encode_manifest,
    make_manifest,
)
from qosweb.terminal_text import escape_controls
from qosweb.tools.admin_client import AdminClient, RequestRefused
from qosweb.tools.blocks import operator_name
from qosweb.units import describe_size, pluralize

if TYPE_CHECKING:
    import argparse

UPLOADERS = 4
READERS = 4
READ_BATCH = 32  # files
READ_WHOLE_MAX = 1 << 20
BUSY_S = 300.0  # how long a file may be uploaded by somebody else
BUSY_PAUSE_S = 0.25


def publish(arguments: argparse.Namespace) -> int:
    """Return 0 if the release is current, 1 if the cluster refused it. Raises UsageError."""
    folder = Path(arguments.folder)
    manifest, files = scan(folder)
    try:
        done = asyncio.run(_publish(arguments, manifest, files))
    except RequestRefused as refusal:
        if refusal.status not in (409, 507):
            raise
        print(f"qosweb: not published: {escape_controls(refusal.text.strip())}", file=sys.stderr)
        return 1
    obstacle = done.get("obstacle")
    if arguments.json:
        print(json.dumps(done, indent=2))
    elif arguments.dry_run:
        print(f"{_changes(done)}; {pluralize(len(done['missing']), 'file')} to upload ({describe_size(done['bytes'])})")
    elif obstacle:
        pass
    elif done.get("unchanged"):
        print(f"release {done['current']} has the same files: nothing to publish")
    else:
        nodes = ", ".join(done["nodes"]) or "this node"
        print(f"release {done['number']} is current at {nodes}: {_changes(done)}, {done['uploaded']} uploaded")
    if obstacle:
        print(f"qosweb: not published: {escape_controls(obstacle)}", file=sys.stderr)
    return 1 if obstacle else 0


def scan(folder: Path) -> tuple[Manifest, dict[str, str]]:
    """The manifest of a folder, and a file for each digest. Hidden files are left out. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: {'not a folder' if folder.exists() else 'there is no such folder'}")
    found: list[tuple[str, str, os.stat_result]] = []
    for where, folders, names in os.walk(folder, onerror=_refuse_unreadable):
        inside = where.removeprefix(str(folder)).strip("/")
        folders[:] = sorted(one for one in folders if not one.startswith(".") or (one, inside) == (".well-known", ""))
        for one in folders:
            if Path(where, one).is_symlink():
                raise UsageError(f"{Path(where, one)}: a link to a folder; publish needs the folder itself")
        for name in names:
            if name.startswith("."):
                continue
            path, relative = f"{where}/{name}", f"{inside}/{name}" if inside else name
            try:
                status = os.stat(path)
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from None
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path}: not a regular file")
            if why := check_path(relative):
                raise UsageError(f"{path}: the path {why}")
            found.append((relative, path, status))
            if len(found) > FILES_MAX:
                raise UsageError(f"{folder}: more than {FILES_MAX:,} files")
    if not found:
        raise UsageError(f"{folder}: no files to publish (hidden files are left out)")
    digests = _digests([path for _, path, _ in found])
    files = {digest: path for digest, (_, path, _) in zip(digests, found, strict=True)}
    manifest = make_manifest(
        ManifestFile(relative, digest, status.st_size, int(status.st_mtime))
        for digest, (relative, _, status) in zip(digests, found, strict=True)
    )
    return manifest, files


def _refuse_unreadable(error: OSError) -> NoReturn:
    """A folder that cannot be read must not disappear from the site."""
    raise UsageError(f"{error.filename}: {error.strerror}") from None


def _digests(paths: list[str]) -> list[str]:
    """The SHA-256 of each file. Hashing runs without the interpreter's lock, so threads share it."""
    with ThreadPoolExecutor(READERS) as readers:
        batches = [paths[at : at + READ_BATCH] for at in range(0, len(paths), READ_BATCH)]
        return [one for batch in readers.map(lambda batch: [_digest(path) for path in batch], batches) for one in batch]


def _digest(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size <= READ_WHOLE_MAX:
                return sha256(file.readall()).hexdigest()
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


async def _publish(arguments: argparse.Namespace, manifest: Manifest, files: dict[str, str]) -> dict[str, Any]:
    data = encode_manifest(manifest)
    client = AdminClient(arguments.admin, arguments.token_file)
    plan = await client.plan_release(data)
    missing = [one for one in plan["missing"] if one in files]
    size_of = {one.digest: one.size for one in manifest.files}
    plan["bytes"] = sum(size_of[one] for one in missing)
    if arguments.dry_run or plan.get("obstacle"):
        return plan
    if plan["current"] is not None and not (plan["added"] or plan["changed"] or plan["removed"]):
        return {**plan, "unchanged": True}
    await _upload(client, missing, plan["received"], files, quiet=arguments.json)
    done = await client.publish_release(data, arguments.message, operator_name(), force=arguments.force)
    changes = {name: plan[name] for name in ("added", "changed", "removed")}
    return {**done, **changes, "uploaded": len(missing)}


async def _upload(
    client: AdminClient, missing: list[str], received: dict[str, int], files: dict[str, str], *, quiet: bool
) -> None:
    """Upload the missing files, some at a time. `received`: bytes of each that an interrupted upload has left."""
    left, done = list(reversed(missing)), 0
    shows = not quiet and sys.stderr.isatty()

    async def work() -> None:
        nonlocal done
        while left:
            digest = left.pop()
            await _upload_file(client, digest, files[digest], received.get(digest, 0))
            done += 1
            if shows:
                print(f"\r{done} of {len(missing)} files uploaded", end="", file=sys.stderr, flush=True)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(UPLOADERS, len(missing))):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if shows and missing:
        print(file=sys.stderr)


async def _upload_file(client: AdminClient, digest: str, path: str, offset: int) -> None:
    """Upload a file from `offset` on. If somebody else uploads the same one, wait until that has ended."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            await client.upload_blob(digest, Path(path), offset)
        except RequestRefused as refusal:
            if refusal.status == 422:
                raise UsageError(f"{path} has changed while it was uploaded; publish again") from None
            if refusal.status == 408:
                raise UsageError(f"{path}: {escape_controls(refusal.text.strip())}; publish again") from None
            if refusal.status == 409 and offset:
                offset = 0  # the other upload has ended elsewhere
            elif refusal.status == 503 and time.monotonic() < deadline:
                await asyncio.sleep(BUSY_PAUSE_S)
            else:
                raise
        else:
            return


def _changes(done: dict[str, Any]) -> str:
    return f"{done['added']} added, {done['changed']} changed, {done['removed']} removed"
