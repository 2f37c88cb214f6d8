"""Divides the capacity among the classes (max-min fairness), and checks whether all bounds can be met together."""
