"""Spark's errors for users: the condition and the first lines, never a stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tocsin.cluster.spark.session import first_line
from tocsin.errors import NotReady, QueryFailed, StorageError, disk_full

_LONGEST = 2_000
#: What the JVM says when a file cannot be written.
_FULL = "No space left on device"


def message_of(error: BaseException) -> str:
    """The message of Spark without plans, SQLSTATE and Java stack frames."""
    text = first_line(error) if "java_exception" in vars(error) else str(error)
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("\tat ", "JVM stacktrace", "'", "+-", ":-", "== ")) or (" SQLSTATE: " in line and lines):
            break
        lines.append(line.rstrip())
        if " SQLSTATE: " in line:
            break
    short = " ".join(part for part in lines if part).split(" SQLSTATE: ")[0].strip().rstrip(";")
    return short[:_LONGEST] or type(error).__name__


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of Spark into QueryFailed, and a dead JVM into NotReady."""
    try:
        yield
    except PySparkException as error:
        _check_disk(error)
        condition = error.getCondition()
        fields = {"condition": condition} if condition else {}
        raise QueryFailed(message_of(error), **fields) from error
    except (Py4JError, ConnectionError) as error:
        _check_disk(error)
        if "java_exception" in vars(error):  # toArrow raises this for a failed job
            raise QueryFailed(first_line(error)) from error
        raise NotReady(
            f"Spark does not answer: {type(error).__name__}", hint="Spark is being restarted; try again in a minute"
        ) from error
    except OSError as error:
        raise disk_full(error) or error from error


def _check_disk(error: Exception) -> None:
    if _FULL in str(error):
        hint = "free some space and try again"
        raise StorageError(f"Spark's disk is full: {message_of(error)}", hint=hint) from error
