//! MAXBW: rows of the checklist.
