//! The message flow of a run on a kernel: small datagrams, on the schedule of [`headway_cc::messages`], from the near
//! to the far end of an emulated path. They show the delay that an interactive application would see beside the load.
//! One thread holds both sockets, so that one clock reads both ends and the delay is truly one-way. `cell` calls
//! this.
//!
//! `messages.txt` has one row per message in the order of the schedule, `due_us bytes late_us delay_us`. Times count
//! from the start of the load. `late_us` is how long after it was due the message was handed to the kernel.
//! `delay_us` is the one-way delay, counted from when the message was due and not from when it was sent, so that a
//! sender that was held up hides nothing; it is `-` when the message never arrived.

use crate::observe::lateness::lateness_limit_us;
use crate::observe::probe::now_us;
use crate::raw::messages::Sent;
use crate::stats;
use crate::sys;
use anyhow::{Context, Result};
use headway_cc::messages::Messages;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

/// After the last message was sent, the messages that are missing count as lost once nothing has arrived for this
/// long, in microseconds.
const QUIET_US: i64 = 1_000_000;
/// The longest wait after the last message, in microseconds, even if messages still arrive.
const LINGER_US: i64 = 30_000_000;

/// The sockets of the two ends.
#[derive(Debug)]
pub struct Sockets {
    pub near: UdpSocket,
    pub far: UdpSocket,
}

/// A running message flow.
#[derive(Debug)]
pub struct MessageFlow {
    thread: JoinHandle<Result<Vec<Sent>>>,
}

/// Opens the socket of one end, in the network namespace of the calling thread.
pub fn socket(address: Ipv4Addr) -> Result<UdpSocket> {
    let open = || {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    };
    open().with_context(|| format!("cannot open a UDP socket at {address}"))
}

impl MessageFlow {
    /// Starts to send on the schedule, from `start_us` of the monotonic clock on and for `length_us`.
    pub fn start(
        sockets: Sockets,
        messages: Messages,
        seed: u64,
        start_us: i64,
        length_us: i64,
    ) -> Result<Self> {
        sockets.near.connect(sockets.far.local_addr()?).context("cannot connect a UDP socket")?;
        let due_us =
            (0..).map(|n| (messages.due_ns(seed, n) / 1000) as i64).take_while(|due_us| *due_us < length_us);
        let schedule: Vec<Sent> = due_us
            .zip(0..)
            .map(|(due_us, n)| Sent { due_us, bytes: messages.bytes(seed, n), late_us: 0, delay_us: None })
            .collect();
        let thread = std::thread::spawn(move || {
            sys::sched::make_real_time();
            run(&sockets, schedule, start_us)
        });
        Ok(Self { thread })
    }

    /// Waits until all messages were sent and have arrived or count as lost.
    pub fn finish(self) -> Result<Vec<Sent>> {
        self.thread.join().map_err(|_| anyhow::anyhow!("the message flow crashed"))?
    }
}

fn run(sockets: &Sockets, mut schedule: Vec<Sent>, start_us: i64) -> Result<Vec<Sent>> {
    let mut next = 0;
    let (mut heard_us, mut missing) = (start_us, schedule.len());
    loop {
        let now = now_us();
        let wake_us = match schedule.get_mut(next) {
            Some(message) if now >= start_us + message.due_us => {
                message.late_us = now - start_us - message.due_us;
                // A message that a full queue refuses counts as lost; it is no error of the run.
                let _ = sockets.near.send(&payload(next as u64, message.bytes));
                (next, heard_us) = (next + 1, now);
                continue;
            }
            Some(message) => start_us + message.due_us,
            None => (heard_us + QUIET_US).min(start_us + schedule.last().map_or(0, |s| s.due_us) + LINGER_US),
        };
        if next == schedule.len() && (missing == 0 || now >= wake_us) {
            return Ok(schedule);
        }
        sys::wait::wait_readable([sockets.far.as_fd()], Some((wake_us - now).max(0) as u64 * 1000))
            .context("waiting for messages")?;
        let mut buf = [0; 16];
        while let Ok(n) = sockets.far.recv(&mut buf) {
            let at_us = now_us() - start_us;
            if let Some(message) = number(&buf[..n]).and_then(|n| schedule.get_mut(n as usize))
                && message.delay_us.is_none()
            {
                message.delay_us = Some(at_us - message.due_us);
                (missing, heard_us) = (missing - 1, start_us + at_us);
            }
        }
    }
}

/// The first bytes of each payload. They tell the messages from datagrams that do not belong to this flow.
const MARK: &[u8; 8] = b"headway\0";

/// The payload of a message: a mark, the message's number, and zeros up to its size.
fn payload(number: u64, bytes: u32) -> Vec<u8> {
    let mut payload = [MARK.as_slice(), &number.to_be_bytes()].concat();
    payload.resize(bytes as usize, 0);
    payload
}

fn number(payload: &[u8]) -> Option<u64> {
    let (mark, number) = payload.split_first_chunk::<8>()?;
    (mark == MARK).then_some(u64::from_be_bytes(number.first_chunk::<8>().copied()?))
}

/// Why the run does not count: the sender itself was so late that its lateness would look like delay of the path. The
/// limit is the emulator's own (`EmuLog::disturbed`). Only messages due from `from_us` on are judged, because the
/// load's programs are started before that.
pub fn disturbed(messages: &[Sent], from_us: i64, base_rtt_us: u64) -> Option<String> {
    let limit_us = lateness_limit_us(base_rtt_us) as f64;
    let inside = messages.iter().filter(|m| m.due_us >= from_us);
    let late: Vec<f64> = inside.map(|m| m.late_us as f64).collect();
    let p999_us = stats::quantile(&late, 0.999)?;
    (p999_us > limit_us)
        .then(|| format!("messages were sent {p999_us:.0} us late (p99.9, limit {limit_us:.0} us)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_its_message() {
        for bytes in [16, 17, 200, 1472] {
            let payload = payload(77, bytes);
            assert_eq!((payload.len(), number(&payload[..16])), (bytes as usize, Some(77)));
        }
        assert_eq!(number(&[0; 16]), None);
        assert!((0..16).all(|n| number(&payload(1, 16)[..n]).is_none()));
    }

    #[test]
    fn every_message_arrives_over_loopback_in_the_order_of_the_schedule() {
        let ends = || socket(Ipv4Addr::LOCALHOST).unwrap();
        let sockets = Sockets { near: ends(), far: ends() };
        let messages: Messages = "64..1200@1000".parse().unwrap();
        let flow = MessageFlow::start(sockets, messages, 3, now_us(), 200_000).unwrap();
        let sent = flow.finish().unwrap();
        assert_eq!(sent.len(), 200);
        for (n, m) in sent.iter().enumerate() {
            assert_eq!(m.bytes, messages.bytes(3, n as u64));
            assert!(m.delay_us.is_some_and(|us| us >= m.late_us), "{m:?}");
        }
    }

    #[test]
    fn a_late_sender_disturbs() {
        let message = |late_us| Sent { due_us: 0, bytes: 100, late_us, delay_us: None };
        assert_eq!(disturbed(&[message(0); 1000], 0, 40_000), None);
        let mut late = vec![message(0); 1000];
        late[..5].fill(message(2001));
        assert!(disturbed(&late, 0, 40_000).is_some_and(|why| why.contains("limit 2000 us")));
        assert_eq!(disturbed(&late, 1, 40_000), None, "none of them was due in the window");
        assert_eq!(disturbed(&[], 0, 40_000), None);
    }
}
