"""Commands run in this process, and programs beside it."""
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from factlab.cli.main import main, parser
from factlab.cli.output import run_command

WORLD = {'owls.txt': 'Owls hunt at night. They rest in hollow trees by day.', 'otters.md': 'Otters live by rivers and eat fish.'}


def run(*arguments: object) -> int:
    "Exit code of a command; what it raises is raised."
    return run_command(parser(), [str(argument) for argument in arguments])


def say(capsys, *arguments: object) -> tuple[int, str, str]:
    "Exit code, output and errors of a command."
    try: code = main([*map(str, arguments)])
    except SystemExit as end: code = end.code
    return (code, *capsys.readouterr())


def corpus_in(folder: Path) -> Path:
    "WORLD as the files of a folder."
    folder.mkdir()
    for name, text in WORLD.items(): (folder/name).write_text(text)
    return folder


def started(code: str, *arguments: object) -> subprocess.Popen:
    "A program of its own."
    return subprocess.Popen([sys.executable, '-c', textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, 'FACTLAB_PROGRESS': '0'})
