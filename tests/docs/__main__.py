"""``./dev docs generate`` and ``./dev docs pictures``: write the generated parts of the documentation."""

from __future__ import annotations

import sys

from tests.docs import generated_pages, pictures


def main(arguments: list[str]) -> int:
    match arguments:
        case ["generate"]:
            for path, text in generated_pages.all_pages().items():
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(generated_pages.DOCS.parent)}")
            return 0
        case ["pictures"]:
            for path in pictures.take(generated_pages.DOCS / "images"):
                print(f"wrote {path.relative_to(generated_pages.DOCS.parent)}")
            return 0
    print("usage: ./dev docs [serve | build | generate | pictures]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
