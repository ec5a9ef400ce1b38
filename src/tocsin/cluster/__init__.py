"""The data cluster: from a published record to a numbered result that a broker can pull."""
