"""Audit log: one JSON record for each request, with its caller, its target and the decision about it."""

from carrel.audit.file import AuditFile, AuditStream, FileOptions
from carrel.audit.log import AuditDestination, AuditLog
from carrel.audit.recorder import AuditRecorder
from carrel.audit.syslog import Syslog
from carrel.audit.telemetry import Telemetry
from carrel.audit.verify import verify_files

__all__ = [
    "AuditDestination",
    "AuditFile",
    "AuditLog",
    "AuditRecorder",
    "AuditStream",
    "FileOptions",
    "Syslog",
    "Telemetry",
    "verify_files",
]
