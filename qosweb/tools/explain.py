"""x"""

import argparse


def explain(arguments: argparse.Namespace) -> int:
    return 0
