//! ECN: rows of the checklist.
