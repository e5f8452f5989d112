//! RTT: rows of the checklist.
