"""Operations: metrics, and the points at which tests kill the process."""
