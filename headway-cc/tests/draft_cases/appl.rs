//! APPL: rows of the checklist.
