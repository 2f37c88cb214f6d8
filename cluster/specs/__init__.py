"""The papers' specifications as checkers of a trace, and their invariants as checkers of the joint state.

`checkers.Checkers` has all of them and is what a simulation feeds; `spec` is the form that they share.
"""
