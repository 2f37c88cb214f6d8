"""The version of the distribution, defined only here."""

VERSION = "0.2.0"
