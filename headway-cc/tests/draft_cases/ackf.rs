//! ACKF: rows of the checklist.
