"""Object stores, remote file systems and ZIP archives as resources: one provider over one small interface."""
