"""``python -m datasette_crystal``: the commands without loading Datasette, quicker to start."""

from .cli import crystal

if __name__ == "__main__":
    crystal(prog_name="python -m datasette_crystal")
