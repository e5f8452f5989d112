//! LOSS: rows of the checklist.
