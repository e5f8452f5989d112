//! COEX: rows of the checklist.
