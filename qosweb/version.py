"""The version of the distribution: the one place that states it."""

VERSION = "0.1.0"
