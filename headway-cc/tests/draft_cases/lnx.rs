//! LNX: rows of the checklist.
