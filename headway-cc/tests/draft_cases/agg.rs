//! AGG: rows of the checklist.
