"""Audit log: one JSON line for each request, with its caller, its target and the decision about it."""

from carrel.audit.log import AuditLog, AuditOptions
from carrel.audit.recorder import AuditRecorder
from carrel.audit.verify import verify_files

__all__ = ["AuditLog", "AuditOptions", "AuditRecorder", "verify_files"]
