"""The parameters of Table 5.2, with the thesis' values."""

from __future__ import annotations

import msgspec

from tocsin.errors import UserError


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ratios are shares of 1, durations seconds. A delay threshold is a share of ``delay_normalization``."""

    pie_ratio_threshold: float = 0.025
    pie_delay_threshold: float = 0.025
    local_pie_period: float = 30.0
    global_pie_period: float = 60.0
    press_samples: int = 50
    press_timeout: float = 30.0
    lower_overload: float = 0.9
    higher_overload: float = 0.95
    local_ratio_threshold: float = 0.1
    local_delay_threshold: float = 0.1
    global_ratio_threshold: float = 0.15
    global_delay_threshold: float = 0.15
    stabilize_duration: float = 30.0
    stabilize_percentage: float = 0.05
    delay_normalization: float = 0.1
    local_detection_min: float = 20.0
    local_detection_max: float = 40.0
    global_detection_min: float = 50.0
    global_detection_max: float = 70.0
    balance_percentage: float = 0.005
    smoothing: float = 0.75
    global_requests: int = 3
    migration_timeout: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise UserError(f"{name} is {value!r}", hint="it is a number, 0 or more")
        for name in ("local_pie_period", "global_pie_period", "delay_normalization", "migration_timeout"):
            if getattr(self, name) <= 0:
                raise UserError(f"{name} is 0", hint="it is above 0")
        for name in ("press_samples", "global_requests"):
            value = getattr(self, name)
            if value < 1 or value != int(value):
                raise UserError(f"{name} is {value!r}", hint="it is a whole number, 1 or more")
        for low, high in (
            ("lower_overload", "higher_overload"),
            ("local_detection_min", "local_detection_max"),
            ("global_detection_min", "global_detection_max"),
            # Below the local ones, clusters would balance what their edges hold to be balanced.
            ("local_ratio_threshold", "global_ratio_threshold"),
            ("local_delay_threshold", "global_delay_threshold"),
        ):
            if getattr(self, low) > getattr(self, high):
                text = f"{low} is {getattr(self, low):g} and {high} is {getattr(self, high):g}"
                raise UserError(text, hint=f"{low} is at most {high}")
        if not 0 < self.smoothing <= 1:
            raise UserError(f"smoothing is {self.smoothing:g}", hint="it is above 0 and at most 1")
        if self.local_detection_max <= 0 or self.global_detection_max <= 0:
            raise UserError("a detection interval of 0 seconds", hint="the maximum is above 0")


def parameters(settings: dict[str, float] | None = None) -> Parameters:
    """From a configuration; refuses what does not exist, with what does."""
    for name in settings or {}:
        if name not in Parameters.__struct_fields__:
            known = ", ".join(Parameters.__struct_fields__)
            raise UserError(f"there is no parameter {name!r}", hint=f"there are: {known}")
    return Parameters(**(settings or {}))  # type: ignore[arg-type]
