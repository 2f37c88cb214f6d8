"""``./dev campaign NAME``: runs one of the campaigns in this folder. Each is named after its module."""

import ast
import importlib
import signal
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(file.stem.replace("_", "-") for file in FOLDER.glob("[!_]*.py"))


def module(name: str) -> str:
    return name.replace("-", "_")


def summary(name: str) -> str:
    """The first line of the module's docstring."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{module(name)}.py").read_text())) or ""
    return text.partition("\n")[0]


def main() -> int:
    name, *rest = sys.argv[1:] or [""]
    if name not in names():
        if name:
            print(f"no campaign '{name}'; there are:", file=sys.stderr)
        for known in names():
            print(f"  ./dev campaign {known:<12} {summary(known)}")
        return 2 if name else 0
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # ends processes and namespaces
    code: int = importlib.import_module(f"tests.campaigns.{module(name)}").main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
