"""Experiments: the paper's evaluation and further ones, run against real nodes.

An experiment starts nodes as processes, sends them a trace with ``loadgen run``, and is judged twice: by what the
clients received, and by what the nodes wrote to their access logs. It produces a CSV file, a plot, and a section of one
HTML report.
Nothing here imports the server: an experiment knows a node by its command line, its access log and its ``/status``.
"""
