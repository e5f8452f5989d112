//! One look at the flows, and what they have done since the look before.

use anyhow::Result;
use headway_kernel::{Bytes, Counters, Flow, Loaded, Model, Socket, Watcher};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A socket as a look shows it.
#[derive(Debug)]
pub struct Seen {
    pub socket: Socket,
    /// Of a flow of ours.
    pub ours: Option<Ours>,
    /// What the peer has acknowledged since the look before, bytes/s; `None` where that look did not show it.
    pub rate: Option<u64>,
}

/// What is known of a flow of ours beside its socket.
#[derive(Debug)]
pub struct Ours {
    /// Which programs have it.
    pub generation: u32,
    /// How long it has used the controller.
    pub age: Option<Duration>,
    pub model: Option<Model>,
    /// What it has transferred since it uses the controller.
    pub bytes: Bytes,
}

impl Seen {
    /// What it has transferred: while it was ours, or in its life.
    pub fn bytes(&self) -> Bytes {
        self.ours.as_ref().map_or(self.socket.bytes, |ours| ours.bytes)
    }

    pub fn model(&self) -> Option<&Model> {
        self.ours.as_ref()?.model.as_ref()
    }

    /// Share of the bytes sent that were sent again.
    pub fn loss(&self) -> Option<f64> {
        let bytes = self.bytes();
        (bytes.sent > 0).then(|| bytes.retransmitted as f64 / bytes.sent as f64)
    }
}

#[derive(Debug)]
pub struct Looker {
    watcher: Watcher,
    with_others: bool,
    before: HashMap<u64, u64>,
    at: Option<Instant>,
}

impl Looker {
    /// `with_others`: also the sockets of this network namespace whose controller is not ours.
    ///
    /// # Errors
    /// The kernel or the user's rights do not allow to look.
    pub fn new(with_others: bool) -> Result<Looker> {
        Ok(Looker { watcher: Watcher::new()?, with_others, before: HashMap::new(), at: None })
    }

    pub fn look(&mut self) -> Result<Vec<Seen>> {
        let now = Instant::now();
        let flows = self.watcher.flows()?;
        let others = if self.with_others { self.watcher.others(&flows)? } else { Vec::new() };
        let passed = self.at.replace(now).map(|before| now - before);
        let ours = flows.into_iter().map(|flow| {
            let Flow { socket, generation, bytes, age, model } = flow;
            (socket, Some(Ours { generation, bytes, age, model }))
        });
        let before = std::mem::take(&mut self.before);
        let seen = |(socket, ours): (Socket, Option<Ours>)| {
            let acked = socket.bytes.acked;
            // An address that another socket has now may be less far.
            let since = before.get(&socket.key).and_then(|before| acked.checked_sub(*before));
            let rate = since.zip(passed).map(|(bytes, passed)| (bytes as f64 / passed.as_secs_f64()) as u64);
            Seen { socket, ours, rate }
        };
        let all: Vec<Seen> = ours.chain(others.into_iter().map(|socket| (socket, None))).map(seen).collect();
        self.before = all.iter().map(|s| (s.socket.key, s.socket.bytes.acked)).collect();
        Ok(all)
    }

    /// What a generation of programs counted; `None` when it is gone.
    pub fn counters(&self, generation: u32) -> Option<Counters> {
        self.watcher.counters(generation)
    }

    /// The controllers that are loaded.
    pub fn loaded(&self) -> Result<Vec<Loaded>> {
        Ok(headway_kernel::loaded()?)
    }
}
