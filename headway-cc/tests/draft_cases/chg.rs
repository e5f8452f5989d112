//! CHG: rows of the checklist.
