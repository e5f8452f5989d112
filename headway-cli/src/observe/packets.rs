//! Keeps the TCP packets at a host's device while a cell runs, for `packets.txt`.

use crate::raw::packets::Packet;
use crate::sys::capture::{self, Capture};
use anyhow::{Context, Result, ensure};
use etherparse::{TcpOptionElement, TransportSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Room for IPv6 and TCP with all options; the rest of a packet is data.
const HEADERS: usize = 128;

/// A running capture. Dropping it ends it.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Packet>>>>,
}

impl Recorder {
    /// Begins in the calling thread's network namespace.
    pub fn start() -> Result<Self> {
        let capture = Capture::open().context("cannot look at the packets of this host")?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        Ok(Self { stop, thread: Some(std::thread::spawn(move || record(&capture, &flag))) })
    }

    /// What was seen.
    ///
    /// # Errors
    /// Not all could be kept: what is missing would look like a difference.
    pub fn stop(mut self) -> Result<Vec<Packet>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is taken only here and by the end");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn record(capture: &Capture, stop: &AtomicBool) -> Result<Vec<Packet>> {
    let ahead_ns = capture::realtime_ahead_ns();
    let (mut packets, mut headers) = (Vec::new(), [0; HEADERS]);
    loop {
        match capture.next(&mut headers).context("cannot read packets")? {
            Some(seen) => packets.extend(
                packet(seen.bytes, seen.is_sent)
                    .map(|p| Packet { t_ns: seen.realtime_ns.saturating_sub(ahead_ns), ..p }),
            ),
            // What passed before the end was asked for has been read by then.
            None if stop.load(Ordering::Relaxed) => break,
            None => {}
        }
    }
    let drops = capture.drops().context("cannot ask for lost packets")?;
    ensure!(
        drops == 0,
        "{drops} packets passed too fast to be kept\nhint: leave --trace out, or slow the path down"
    );
    Ok(packets)
}

/// What of a TCP packet is kept, without its time; `None` of any other.
fn packet(bytes: &[u8], is_sent: bool) -> Option<Packet> {
    // The data are cut off, so lengths come from the headers and not from what is there.
    let sliced = etherparse::LaxSlicedPacket::from_ip(bytes).ok()?;
    let TransportSlice::Tcp(tcp) = sliced.transport? else { return None };
    let ip_bytes = match sliced.net? {
        etherparse::LaxNetSlice::Ipv4(ip) => {
            u32::from(ip.header().total_len()) - u32::from(ip.header().ihl()) * 4
        }
        etherparse::LaxNetSlice::Ipv6(ip) => u32::from(ip.header().payload_length()),
        etherparse::LaxNetSlice::Arp(_) => return None,
    };
    let sacks = tcp.options_iterator().filter_map(|option| match option.ok()? {
        TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
            Some(std::iter::once(first).chain(rest.into_iter().flatten()).collect::<Vec<_>>())
        }
        _ => None,
    });
    Some(Packet {
        t_ns: 0,
        is_sent,
        port: if is_sent { tcp.source_port() } else { tcp.destination_port() },
        seq: tcp.sequence_number(),
        bytes: ip_bytes.saturating_sub(u32::from(tcp.data_offset()) * 4),
        ack: tcp.acknowledgment_number(),
        has_syn: tcp.syn(),
        has_fin: tcp.fin(),
        has_ece: tcp.ece(),
        sacks: sacks.flatten().collect(),
    })
}
