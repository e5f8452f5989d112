//! RATE: rows of the checklist.
