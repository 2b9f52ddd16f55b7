//! Memory that a device or the kernel may write: regions and circular lists of persistent buffers.
