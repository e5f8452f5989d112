//! `load.json` and `rival.json`: what the streams of a load did, in the form in which iperf3 prints it.
//!
//! iperf3's own output is kept as it is. What this program's own loads (the simulator's flows, those of
//! `load/streams.rs` and `load/quic.rs`) have to say is written in the same form, and what iperf 2 prints is brought
//! into it.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{parse, unstreamed};
pub use write::{kernel_json, sim_json, socket};

/// What one load did. Intervals that iperf3 was asked to leave out (`-O`) are left out.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Load {
    /// Who made it: `iperf 3.12`, `iperf 2.1.8`, or this program's name and version.
    pub version: String,
    /// Length that was asked for.
    pub duration_us: u64,
    /// Time over which the receiver counted.
    pub received_us: u64,
    /// Payload handed to the sending sockets.
    pub sent_bytes: u64,
    /// Payload that arrived.
    pub received_bytes: u64,
    /// Retransmitted segments; `None` when the sender does not count them.
    pub retransmits: Option<u64>,
    /// Payload bytes of a full segment; `None` when iperf3 does not tell.
    pub mss_bytes: Option<u64>,
    /// The controller that the sending sockets reported; `None` when the tool does not tell.
    pub sender_cc: Option<String>,
    /// The server sent (`-R`).
    pub is_reverse: bool,
    /// Share of one CPU that the process or thread at this end used, in percent.
    pub sender_cpu_percent: Option<f64>,
    pub receiver_cpu_percent: Option<f64>,
    /// The sending side's intervals.
    pub sent: Vec<Interval>,
    /// The receiving side's intervals; empty when the server's output did not come back.
    pub received: Vec<Interval>,
    /// Text that the tool printed around the JSON value, kept as a diagnostic.
    pub rest: String,
}

/// One reporting interval of one side. Times count from the start of the data phase.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Interval {
    pub from_us: u64,
    pub to_us: u64,
    /// Payload bytes of each stream.
    pub stream_bytes: Vec<u64>,
    /// Retransmitted segments of all streams; `None` on the receiving side.
    pub retransmits: Option<u64>,
    /// Smoothed RTT of each stream; empty on the receiving side.
    pub srtt_us: Vec<u64>,
}

impl Interval {
    pub fn bytes(&self) -> u64 {
        self.stream_bytes.iter().sum()
    }
}

impl Load {
    /// Whether the load counts: something arrived, for at least 95 % of the time, and the sockets that sent it
    /// used the controller `cc`. The exit code of iperf3 says none of this, so it must be read from the file.
    ///
    /// # Errors
    /// The reason why it does not count.
    pub fn judge(&self, cc: &str) -> std::result::Result<(), String> {
        if self.received_bytes == 0 {
            return Err("the receiver counted no byte".into());
        }
        if self.received_us * 100 < self.duration_us * 95 {
            let (got, asked) = (self.received_us as f64 / 1e6, self.duration_us as f64 / 1e6);
            return Err(format!("the load ran for {got:.2} s of {asked:.2} s"));
        }
        match self.sender_cc.as_deref() {
            Some(name) if name == cc => Ok(()),
            Some(name) if self.is_reverse => {
                Err(format!("the sender, which is the server, used its own `{name}`, not `{cc}`"))
            }
            Some(name) => Err(format!("the sender used `{name}`, not `{cc}`")),
            None => Err("the tool did not say which controller the sender used".into()),
        }
    }
}
