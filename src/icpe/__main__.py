"""``python -m icpe``: the command line where its script is not on the path."""

from icpe.cli import main

if __name__ == "__main__":
    main()
