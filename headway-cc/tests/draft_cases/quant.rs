//! QUANT: rows of the checklist.
