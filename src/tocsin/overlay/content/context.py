"""What all parts of a broker share while an event is handled: time, randomness, and what is to be done."""

from __future__ import annotations

from random import Random

from tocsin.overlay.content.instructions import Instruction, Send
from tocsin.overlay.content.messages import Message, Session
from tocsin.overlay.content.settings import Settings


class Context:
    def __init__(self, name: str, epoch: int, settings: Settings, rng: Random) -> None:
        self.name, self.epoch, self.settings, self.rng = name, epoch, settings, rng
        self.now = 0.0
        self.out: list[Instruction] = []
        self._sessions = 0

    def begin(self, now: float) -> list[Instruction]:
        self.now, self.out = now, []
        return self.out

    def send(self, target: str, message: Message) -> None:
        self.out.append(Send(target, message))

    def session(self) -> Session:
        """A new one, higher than all before."""
        self._sessions += 1
        return Session(self.epoch, self._sessions)
