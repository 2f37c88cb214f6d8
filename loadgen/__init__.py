"""Load generation: traces, open-loop runs, reports."""
