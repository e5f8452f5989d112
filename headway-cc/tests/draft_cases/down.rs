//! DOWN: rows of the checklist.
