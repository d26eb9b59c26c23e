"""A command line as the program reads it."""

import argparse

from gateway.lab.load.arguments import add_arguments


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)
