"""Operations: maintenance, metrics, and the points where tests kill the process."""
