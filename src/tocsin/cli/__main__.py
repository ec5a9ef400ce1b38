"""``tocsin``, and ``python -m tocsin.cli``."""

from typing import NoReturn


def main() -> NoReturn:
    try:
        # Takes half a second, in which somebody may think better of it.
        from tocsin.cli.main import run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
