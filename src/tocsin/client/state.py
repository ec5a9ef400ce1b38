"""The client's side of ``tocsin.v1.json`` as a pure state machine."""
