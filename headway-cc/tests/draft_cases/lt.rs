//! LT: rows of the checklist.
