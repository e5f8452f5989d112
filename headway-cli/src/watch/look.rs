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
    known: HashMap<u64, Known>,
    at: Option<Instant>,
    /// How many looks there were.
    looks: u64,
}

/// A socket at the last look that showed it.
#[derive(Debug)]
struct Known {
    acked: u64,
    look: u64,
}

impl Looker {
    /// `with_others`: also the sockets of this network namespace whose controller is not ours.
    ///
    /// # Errors
    /// The kernel or the user's rights do not allow to look.
    pub fn new(with_others: bool) -> Result<Looker> {
        Ok(Looker { watcher: Watcher::new()?, with_others, known: HashMap::new(), at: None, looks: 0 })
    }

    /// Those that `takes` are kept: of ten thousand sockets it is the copies that cost.
    pub fn look(&mut self, mut takes: impl FnMut(&Seen) -> bool) -> Result<Vec<Seen>> {
        let now = Instant::now();
        let passed = self.at.replace(now).map(|before| now - before);
        self.looks += 1;
        let Looker { watcher, known, looks: look, .. } = self;
        let mut all = Vec::with_capacity(known.len());
        let mut add = |socket: Socket, ours: Option<Ours>, before: Option<Known>| {
            // An address that another socket has now may be less far.
            let before = before.filter(|b| b.look + 1 == *look);
            let since = before.and_then(|before| socket.bytes.acked.checked_sub(before.acked));
            let rate = since.zip(passed).map(|(bytes, passed)| (bytes as f64 / passed.as_secs_f64()) as u64);
            let seen = Seen { socket, ours, rate };
            if takes(&seen) {
                all.push(seen);
            }
        };
        let now_known = |socket: &Socket| Known { acked: socket.bytes.acked, look: *look };
        watcher.flows(|flow| {
            let Flow { socket, generation, bytes, age, model } = flow;
            let before = known.insert(socket.key, now_known(&socket));
            add(socket, Some(Ours { generation, age, model, bytes }), before);
        })?;
        if self.with_others {
            watcher.sockets(|socket| {
                let before = known.insert(socket.key, now_known(&socket));
                // Those that were just seen are flows of ours.
                if before.as_ref().is_none_or(|before| before.look != *look) {
                    add(socket, None, before);
                }
            })?;
        }
        known.retain(|_, known| known.look == *look);
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
