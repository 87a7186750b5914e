"""Calibrations shipped with planproof, `DEVICE.SOFTWARE.yaml`, written by `planproof calibrate`."""
