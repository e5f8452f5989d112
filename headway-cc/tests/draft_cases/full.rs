//! FULL: rows of the checklist.
