//! SIM: rows of the checklist.
