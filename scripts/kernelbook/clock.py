"""Where the time of a forward goes: CPU, launch delay, device busy and idle; profiled against unprofiled."""

from __future__ import annotations

from kernelbook.case_facts import CaseFacts

#: A forward whose device is busy at least this share of its unprofiled time is limited by the device ...
GPU_BOUND_FROM = 0.9
#: ... and below this share by the calls that feed it; between the two neither is clear.
LAUNCH_BOUND_BELOW = 0.75


def bound_of(facts: CaseFacts) -> tuple[str, str]:
    """(launches | gpu | unclear | unknown, why): device busy time per forward over the unprofiled forward time."""
    busy, whole = facts.device_busy_us, facts.forward_time_us
    if busy is None or not whole:
        return "unknown", "the device's busy time or the unprofiled forward time is missing"
    share = busy / whole
    why = f"the device is busy for {busy:.1f} µs of the {whole:.1f} µs that an unprofiled forward takes ({share:.0%})"
    if share >= GPU_BOUND_FROM:
        return "gpu", why
    return ("launches" if share < LAUNCH_BOUND_BELOW else "unclear"), why
