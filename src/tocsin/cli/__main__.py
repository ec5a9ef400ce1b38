"""``tocsin``, and ``python -m tocsin.cli``."""

from typing import NoReturn


def main() -> NoReturn:
    try:
        # The import takes half a second; Ctrl-C must not print a stack trace in the meantime.
        from tocsin.cli.main import run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
