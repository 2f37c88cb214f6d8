"""x"""

import argparse


def shares(arguments: argparse.Namespace) -> int:
    return 0
