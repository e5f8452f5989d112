//! METRICS: one row per metric, computed from a cell's raw folder.
