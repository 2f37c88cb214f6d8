"""A replicated key-value store: type ``set NAME VALUE``, ``get NAME``, ``members`` or ``quit``."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from cluster import Options, ProcessId, Replica, View, read_key_file


class Store:
    """The state machine. Only these calls change the state, and all members get them in the same order."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def apply(self, position: int, _origin: ProcessId, body: bytes) -> str:
        name, value = json.loads(body)
        self.values[name] = value
        return f"{name} = {value} (entry {position} of the order)"

    def view_changed(self, _position: int, _view: View) -> None:
        """Nothing in the state depends on the members."""

    def snapshot(self) -> bytes:
        return json.dumps(self.values, sort_keys=True).encode()

    def restore(self, state: bytes) -> None:
        self.values = json.loads(state)


async def answer(line: str, store: Store, replica: Replica) -> str:
    match line.strip().split(maxsplit=2):
        case ["set", name, value]:
            return str(await replica.submit(json.dumps([name, value]).encode()))
        case ["get", name]:
            return store.values.get(name, f"{name} is not set")
        case ["members"]:
            view = replica.primary
            return "not in a primary view" if view is None else " ".join(one.name for one in view.members)
    return "type: set NAME VALUE, get NAME, members, or quit"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--join", action="append", default=[])
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    store = Store()
    options = Options(
        name=given.name,
        key=read_key_file(given.key_file),
        listen=(given.listen,),
        contacts=tuple(given.join),
        data=given.data,
    )
    replica = await (Replica.found if given.found else Replica.join)(options, store)
    print(f"{given.name} listens at {replica.addresses[0]}", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while (line := (await lines.readline()).decode()) and line.strip() != "quit":
        print(await answer(line, store, replica), flush=True)
    await replica.close()


if __name__ == "__main__":
    asyncio.run(main())
