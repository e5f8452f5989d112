//! UNDO: rows of the checklist.
