"""`python -m gpt1`, the same as the command `gpt1`."""

from gpt1.cli import main

if __name__ == "__main__":
    main()
