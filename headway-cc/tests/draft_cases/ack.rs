//! ACK: rows of the checklist.
