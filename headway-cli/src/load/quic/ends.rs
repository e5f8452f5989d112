//! The sending and the receiving end of a QUIC load. This one file serves both stacks: `noq.rs` and `quinn.rs` each
//! include it beside a module `stack`, which names the crate and has the few calls that differ.

use super::stack::{
    self, AHEAD_BYTES, Connection, ControllerFactory, Endpoint, LEAST_QUIC_BYTES, NAME, SendStream, Setup,
    TokioRuntime, UNSENT_BYTES,
};
use crate::load::quic::{BIN, PATIENCE, Side, Sides, Workload, both};
use crate::sys;
use anyhow::{Context, Result, anyhow};
use headway_cc::quic::sim::{QUIC_BYTES, offered};
use headway_cc::sim::{FlowBin, Source};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// The data that a stream is given at a time: 64 KiB.
static BLOCK: [u8; 65_536] = [0; 65_536];
/// How often a source that already has [`AHEAD_BYTES`] written looks at how much was sent.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the load between the near socket, which sends, and the far socket, which reads. The near end is the QUIC
/// server.
pub fn run(
    load: &Workload,
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    [near, far]: [UdpSocket; 2],
) -> Result<Sides> {
    let setup = Setup::new(load.seed, load.streams, factory, |_| ());
    let [server, client] = setup.endpoints;
    let to = near.local_addr().context("the near socket has no address")?;
    let (start, started) = oneshot::channel();
    let sending = async {
        let endpoint = Endpoint::new(server, Some(setup.server), near, Arc::new(TokioRuntime))
            .context("cannot use the socket")?;
        let accept =
            async { endpoint.accept().await.context("nobody connects")?.await.context("no handshake") };
        let connection = timeout(PATIENCE, accept).await.context("no connection in time")??;
        send(load, &connection, start).await
    };
    let receiving = async {
        let endpoint =
            Endpoint::new(client, None, far, Arc::new(TokioRuntime)).context("cannot use the socket")?;
        let connecting = endpoint.connect_with(setup.client, to, NAME).context("cannot connect")?;
        let connection =
            timeout(PATIENCE, connecting).await.context("no connection in time")?.context("no handshake")?;
        let start = started.await.map_err(|_| anyhow!("the near end broke off"))?;
        receive(load, &connection, start).await
    };
    both(sending, receiving)
}

/// Sends until the end, and reads the connection's counters at the end of each bin. `tell` gets the start of the
/// load.
async fn send(
    load: &Workload,
    connection: &Connection,
    tell: oneshot::Sender<Instant>,
) -> Result<Side<FlowBin>> {
    let start = Instant::now();
    // If the far end has failed, nobody receives the start. That is no error here, because the streams will break
    // off.
    let _ = tell.send(start);
    let cpu_before = sys::clock::thread_cpu_time();
    let end = start + BIN * load.bins;
    let mut writers = JoinSet::new();
    for _ in 0..load.streams {
        let stream = timeout_at(end, connection.open_uni()).await.context("no stream in time")?;
        let stream = stream.context("cannot open a stream")?;
        writers.spawn(write(stream, connection.clone(), load.clone(), start));
    }
    let (mut bins, mut late) = (Vec::new(), Duration::ZERO);
    let (mut sent_before, mut lost_before) = (left(connection, QUIC_BYTES.into()), 0);
    for n in 1..=load.bins {
        late = late.max(until(start + BIN * n).await);
        while let Some(ended) = writers.try_join_next() {
            ended.context("a stream of the load crashed")?.context("a stream broke off")?;
        }
        let (cwnd_bytes, srtt, lost, _) = stack::path(connection);
        let sent = left(connection, QUIC_BYTES.into());
        bins.push(FlowBin {
            t_us: (BIN * (n - 1)).as_micros() as u64,
            sent_bytes: sent.saturating_sub(sent_before),
            retransmitted_packets: lost.saturating_sub(lost_before),
            cwnd_bytes,
            srtt_us: srtt.as_micros() as u64,
            ..FlowBin::default()
        });
        (sent_before, lost_before) = (sent, lost);
    }
    Ok(Side { bins, cpu: sys::clock::thread_cpu_time().saturating_sub(cpu_before), late })
}

/// Waits until `due` and returns how late the wake-up was.
async fn until(due: Instant) -> Duration {
    sleep_until(due).await;
    due.elapsed()
}

/// How many bytes left the socket, retransmissions included, without `header_bytes` for each datagram.
fn left(connection: &Connection, header_bytes: u64) -> u64 {
    let (_, _, _, [datagrams, bytes]) = stack::path(connection);
    bytes.saturating_sub(datagrams * header_bytes)
}

/// Writes what the source offers. It does not end by itself: the caller drops it at the end of the load.
async fn write(mut stream: SendStream, connection: Connection, load: Workload, start: Instant) -> Result<()> {
    let pauses = matches!(load.source, Source::OnOff { .. });
    let mut written = 0;
    loop {
        let (offered, change_ns) = offered(&load.source, start.elapsed().as_nanos() as u64);
        let phase = async {
            while written < offered {
                // `left` counts all streams, of which the stack sends in turns, so each is assumed to have sent an
                // equal share.
                if written * load.streams as u64 >= left(&connection, LEAST_QUIC_BYTES) + AHEAD_BYTES {
                    sleep(LOOK).await;
                    continue;
                }
                let room = (offered - written).min(BLOCK.len() as u64) as usize;
                written += stream.write(&BLOCK[..room]).await? as u64;
                if pauses {
                    connection.set_send_window(stack::path(&connection).0 + UNSENT_BYTES);
                }
            }
            Ok::<(), anyhow::Error>(())
        };
        if change_ns == u64::MAX {
            phase.await?;
            return std::future::pending().await;
        }
        let change = start + Duration::from_nanos(change_ns);
        match timeout_at(change, phase).await {
            Ok(Err(e)) => return Err(e),
            Ok(Ok(())) => sleep_until(change).await,
            Err(_) => {}
        }
    }
}

/// Counts the bytes that arrive on each stream until the end.
async fn receive(load: &Workload, connection: &Connection, start: Instant) -> Result<Side<Vec<u64>>> {
    let cpu_before = sys::clock::thread_cpu_time();
    let counters: Arc<Vec<AtomicU64>> = Arc::new((0..load.streams).map(|_| AtomicU64::new(0)).collect());
    let (accepting, counting) = (connection.clone(), counters.clone());
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        let mut streams = JoinSet::new();
        loop {
            let stream = accepting.accept_uni().await.context("the connection broke off")?;
            let (at, counters) = (stream.id().index() as usize, counting.clone());
            streams.spawn(stack::read(stream, move |bytes| {
                if let Some(counter) = counters.get(at) {
                    counter.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }));
        }
    });
    let (mut bins, mut late) = (Vec::new(), Duration::ZERO);
    for n in 1..=load.bins {
        late = late.max(until(start + BIN * n).await);
        if let Some(ended) = reader.try_join_next() {
            return ended.context("the reader of the load crashed")?;
        }
        bins.push(counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect());
    }
    Ok(Side { bins, cpu: sys::clock::thread_cpu_time().saturating_sub(cpu_before), late })
}
