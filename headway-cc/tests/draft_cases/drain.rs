//! DRAIN: rows of the checklist.
