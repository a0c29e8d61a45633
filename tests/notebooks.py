"""`nbdev_test`, each notebook in the environment that the command has.

A worker runs many notebooks, and some set variables: a home of their own, no data. Left as they are, all later ones of that worker would
convert the embedded model anew, ask again what is in the store, and leave out what needs real data.
"""
import os
from typing import Any

from nbdev import test

test_nb = test.test_nb


def in_the_same_environment(*args: Any, **options: Any) -> tuple[bool, float]:
    before = dict(os.environ)
    try: return test_nb(*args, **options)
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == '__main__':
    import notebooks  # this file by its name: notebooks of a worker replace `__main__`
    test.test_nb = notebooks.in_the_same_environment
    test.nbdev_test()
