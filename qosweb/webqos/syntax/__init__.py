"""From text to tree and back: scanner, grammar, printer, and the diagnostics of everything that reads text."""
