//! The hidden command `headway check-switching`. It checks that Headway's controllers decide the same in the running
//! kernel as in Rust while one socket switches between controllers in the middle of its data, and then sends with
//! pauses, over an emulated path. Every event that the controllers traced is replayed in Rust.
//!
//! It is part of the program, and not one of the tests that need root, because those need a shell and `ip`, which the
//! lab's guests do not have. `tests/lab/controllers.rs` runs it as `headway in-lab 'headway check-switching'` on each kernel.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_tcp_congestion;

use crate::emu::{Emu, EmuOptions};
use headway_kernel::{Attached, Options, ReplayReport, Trace, attach, replay};

#[cfg(test)]
mod root_tests;

const PATH: &str = "20mbit 20ms queue=1bdp loss=0.5%";
/// How often the socket goes through the sequence of controllers.
const ROUNDS: usize = 10;
/// How many bytes are sent with each controller before the next switch.
const AMID_BYTES: usize = 256 << 10;
/// How many bytes are sent between two pauses.
const BURST_BYTES: usize = 20 << 10;
const BURSTS: usize = 40;
/// Length of a pause: longer than the path's round-trip time of 20 ms, so that the sender is idle in between.
const PAUSE: Duration = Duration::from_millis(60);

/// Returns what was compared, one line for each controller.
///
/// # Errors
/// The first event that the kernel and Rust decided differently.
pub fn check() -> Result<String> {
    let (bbr1, bbr3) = (Traced::start("bbr1")?, Traced::start("bbr3")?);
    send(bbr1.attached.name(), bbr3.attached.name()).context("cannot send over the path")?;
    Ok(format!("{:?}\n{:?}\n", bbr1.finish()?, bbr3.finish()?))
}

/// Sends through one socket: each of Headway's controllers takes over from the kernel's and from the other one in the
/// middle of data, and then runs the socket while it pauses.
fn send(bbr1: &str, bbr3: &str) -> Result<()> {
    let emu = Emu::up(&PATH.parse()?, &EmuOptions::default())?;
    let far = emu.far().context("the path has no far end")?;
    let listener = far.enter(|| TcpListener::bind((emu.far_addr(), 0)))?;
    let to = listener.local_addr()?;
    emu.start_clock();
    let reader = std::thread::spawn(move || std::io::copy(&mut listener.accept()?.0, &mut std::io::sink()));
    let mut near = emu.near().enter(|| TcpStream::connect(to))?;
    for name in std::iter::repeat_n(["cubic", bbr3, bbr1, bbr3], ROUNDS).flatten() {
        set_tcp_congestion(&near, name)?;
        near.write_all(&vec![0; AMID_BYTES])?;
    }
    for name in [bbr1, bbr3] {
        set_tcp_congestion(&near, name)?;
        for _ in 0..BURSTS {
            near.write_all(&[0; BURST_BYTES])?;
            std::thread::sleep(PAUSE);
        }
    }
    drop(near);
    reader.join().expect("the reader does not panic")?;
    Ok(())
}

/// A controller that is attached in the kernel, and the trace of its events.
struct Traced {
    attached: Attached,
    trace: Trace,
    text: Sink,
}

impl Traced {
    fn start(cc: &str) -> Result<Self> {
        Self::start_as(None, cc)
    }

    fn start_as(name: Option<String>, cc: &str) -> Result<Self> {
        let mut attached = attach(cc, &Options { name, trace: true })?;
        let text = Sink::default();
        let trace = attached.trace(text.clone())?;
        Ok(Self { attached, trace, text })
    }

    fn finish(self) -> Result<ReplayReport> {
        let traced = self.trace.finish()?;
        let text = self.text.0.lock().expect("nobody panics with it");
        let report = replay(std::str::from_utf8(&text)?)?;
        let without_storage = self.attached.counters()?.without_storage;
        ensure!((traced.lost, without_storage) == (0, 0), "{traced:?}, {without_storage} without storage");
        Ok(report)
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
