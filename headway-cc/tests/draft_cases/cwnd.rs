//! CWND: rows of the checklist.
