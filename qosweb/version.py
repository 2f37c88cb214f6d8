"""The version of the distribution, defined only here."""

VERSION = "0.1.0"
