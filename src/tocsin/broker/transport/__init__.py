"""From the broker to its subscribers: WebSocket, REST, Server-Sent Events, and the notify endpoint."""
