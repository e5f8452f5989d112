//! `headway`: load, compare and measure congestion controllers on the kernel you already run.
#![allow(dead_code)] // until every part is connected

mod bench;
mod emu;
mod guest;
mod kernel;
mod lab;
mod metric;
mod probe;
mod report;
mod simcell;
mod stats;
mod sys;
mod tools;

fn main() {}
