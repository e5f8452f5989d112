//! ST: rows of the checklist.
