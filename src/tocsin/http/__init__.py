"""What the HTTP servers of all parts share: listening, reading requests, answering."""
