//! `headway bench`: plan, run one cell, write its raw files. (stub: being written)

use serde::{Deserialize, Serialize};

/// Version of the raw folder's layout; a folder of another version is refused with a clear sentence.
pub const LAYOUT: u32 = 1;

/// Where a cell runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Sim,
    Lab,
    Here,
    Remote(String),
}

/// Everything that is about to be measured: `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub layout: u32,
    pub place: Place,
    /// Controllers; the first is the baseline of the comparison.
    pub ccs: Vec<String>,
    /// Canonical path texts, with the name they were asked for by (preset name or the text itself).
    pub paths: Vec<PathEntry>,
    pub streams: u32,
    pub blocks: u32,
    /// Length of the load phase.
    pub seconds: u32,
    /// Left out of the summary metrics at the start of the load phase.
    pub warmup_ms: u64,
    pub seed: u64,
    /// Keep the per-ACK trace of our own controllers.
    pub trace: bool,
    /// In the order of execution.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    pub name: String,
    pub text: String,
    /// Content of trace files named in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
}

/// One controller on one path once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub index: usize,
    /// Index into `Plan::paths`.
    pub path: usize,
    pub cc: String,
    pub block: u32,
    /// Seeds every random part of this cell; the same for all controllers of one block on one path.
    pub seed: u64,
}

/// What became of a cell: `cells/NNN/cell.json`, written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    pub layout: u32,
    pub cell: Cell,
    /// Path name and text, repeated so that a cell folder explains itself.
    pub path: PathEntry,
    pub place: Place,
    pub streams: u32,
    pub seconds: u32,
    pub warmup_ms: u64,
    pub kernel: String,
    /// `ok`, or why the cell does not count.
    pub status: String,
    /// The controller that the sending sockets reported.
    pub sender_cc: String,
    pub base_rtt_us: u64,
}

/// Stand-in until the real one is merged: the same tools over the same emulator.
pub fn run_cell_here(plan: &Plan, cell: &Cell, dir: &std::path::Path) -> anyhow::Result<()> {
    use crate::emu::{Emu, EmuOptions};
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    let mut path = headway_cc::path::resolve(&plan.paths[cell.path].text)?;
    for (name, text) in &plan.paths[cell.path].files {
        path.load(name, text)?;
    }
    let emu = Emu::up(&path, &EmuOptions { seed: cell.seed, ..Default::default() })?;
    let (near, far) = (emu.near().clone(), emu.far().unwrap().clone());
    let (to, done) = (emu.far_addr(), AtomicBool::new(false));
    let mut server = far.command("iperf3").args(["-s", "-1"]).stdout(std::process::Stdio::null()).spawn()?;
    let mut rows = String::from("# sent_us rtt_us\n");
    let output = std::thread::scope(|s| {
        s.spawn(|| {
            far.enter(|| {
                let socket = UdpSocket::bind("0.0.0.0:7").unwrap();
                let mut b = [0; 64];
                while let Ok((n, a)) = socket.recv_from(&mut b) {
                    if n == 1 {
                        break;
                    }
                    drop(socket.send_to(&b[..n], a));
                }
            })
        });
        let probe = s.spawn(|| {
            near.enter(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect((to, 7)).unwrap();
                let zero = Instant::now();
                let receiver = socket.try_clone().unwrap();
                std::thread::scope(|s| {
                    let rows = s.spawn(move || {
                        let mut rows = String::new();
                        let mut b = [0; 8];
                        receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                        while let Ok(8) = receiver.recv(&mut b) {
                            let sent = u64::from_le_bytes(b);
                            rows += &format!("{} {}\n", sent, zero.elapsed().as_micros() as u64 - sent);
                        }
                        rows
                    });
                    let mut n = 0;
                    while !done.load(Ordering::Relaxed) {
                        n += 1;
                        std::thread::sleep((Duration::from_millis(20) * n).saturating_sub(zero.elapsed()));
                        drop(socket.send(&(zero.elapsed().as_micros() as u64).to_le_bytes()));
                    }
                    std::thread::sleep(Duration::from_secs(3));
                    drop(socket.send(&[0]));
                    rows.join().unwrap()
                })
            })
        });
        std::thread::sleep(Duration::from_millis(500));
        emu.start_clock();
        let output = near
            .command("iperf3")
            .args(["-J", "-i", "0.1", "-C", &cell.cc, "-t", &plan.seconds.to_string(), "-c", &to.to_string()])
            .output();
        done.store(true, Ordering::Relaxed);
        rows += &probe.join().unwrap();
        output
    })?;
    drop(server.kill());
    server.wait()?;
    std::fs::write(dir.join("load.json"), &output.stdout)?;
    std::fs::write(dir.join("probe.txt"), rows)?;
    let log = emu.stop()?;
    std::fs::write(dir.join("link.txt"), &log.bins)?;
    std::fs::write(dir.join("debug.txt"), format!("{:?} {:?} {:?} kernel drops {}\nBTF {} version {}", log.late, log.down, log.up, log.kernel_drops, std::path::Path::new("/sys/kernel/btf/vmlinux").exists(), std::fs::read_to_string("/proc/version").unwrap_or_default()))?;
    Ok(())
}
