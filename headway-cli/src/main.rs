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
mod stats;
mod sys;
mod sys_guest;
mod tools;

fn main() -> anyhow::Result<()> {
    if guest::is_guest() {
        guest::main();
    }
    // Stand-in until `bench` is merged: headway KERNEL PATH CC SECONDS SEED DIR
    let a: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, path, cc, seconds, seed, dir] = a.as_slice() else { anyhow::bail!("KERNEL PATH CC SECONDS SEED DIR") };
    let kernel = lab::Kernel::find(Some(kernel.as_str()).filter(|k| *k != "-"), None)?;
    let cell = bench::Cell { index: 0, path: 0, cc: cc.clone(), block: 0, seed: seed.parse()? };
    let plan = bench::Plan {
        layout: 1,
        place: bench::Place::Lab,
        ccs: vec![cc.clone()],
        paths: vec![bench::PathEntry { name: path.clone(), text: path.clone(), files: vec![] }],
        streams: 1,
        blocks: 1,
        seconds: seconds.parse()?,
        warmup_ms: 0,
        seed: 1,
        trace: false,
        cells: vec![cell.clone()],
    };
    let start = std::time::Instant::now();
    lab::run_cell(&kernel, &plan, &cell, std::path::Path::new(dir), lab::Limits::for_cell(&plan))?;
    println!("{} in {:.1} s {}", kernel.version, start.elapsed().as_secs_f64(), lab::env(&kernel)?);
    Ok(())
}
