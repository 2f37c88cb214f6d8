"""The paper's evaluation, run again against real nodes, and what goes beyond it.

An experiment starts nodes as processes, sends them a trace by ``loadgen run``, and is judged twice: by what the clients
got, and by what the nodes wrote into their access logs. It leaves a CSV file, a picture, and a section of one page.
Nothing here imports the server: a node is its command line, its log and its ``/status``.
"""
