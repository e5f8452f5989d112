//! UP: rows of the checklist.
