//! AMB: rows of the checklist.
