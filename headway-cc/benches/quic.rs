//! Measures the CPU time per GB over loopback of our controllers and of the stack's own BBR, relative to the stack's
//! own CUBIC, in noq and in quinn: `cargo bench -p headway-cc --bench quic [-- ROUNDS [MB]]`.
//!
//! Each transfer is a process of its own that counts the CPU time of both ends, the kernel's share included, so a
//! busy machine changes little. The controllers take turns, in the opposite order every second round. The ratio is
//! the median over the rounds, with a bootstrap interval of 95 %. The bytes sent for each byte that arrived stand
//! beside it, because a controller that overruns the receiving socket spends CPU time on each byte more than once.

use headway_cc::quic::Factory;
use headway_cc::rand::Rng;
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::process::Command;
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What is compared with the stack's CUBIC. Our CUBIC shows what the adapter itself costs.
const OURS: [&str; 4] = ["headway", "bbr3", "bbr1", "cubic"];
/// The stacks, each with its own CUBIC, which is the measure, and its own BBR.
const STACKS: [[&str; 3]; 2] = [["noq", "noq-cubic", "noq-bbr3"], ["quinn", "quinn-cubic", "quinn-bbr"]];
const RESAMPLES: usize = 2000;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.as_slice() {
        [one, stack, cc, mb] if one == "one" => {
            let Cost { cpu_s, sent } = one_transfer(stack, cc, mb.parse()?)?;
            println!("{cpu_s} {sent}");
            Ok(())
        }
        // For `benches/quic_cpu.sh`, which runs each of them in a guest.
        [list] if list == "list" => {
            for [stack, theirs, bbr] in STACKS {
                all(theirs, bbr).for_each(|cc| println!("{stack} {cc}"));
            }
            Ok(())
        }
        // `cargo test --benches` runs this without `--bench`, which only shows that it works.
        [] if !std::env::args().any(|arg| arg == "--bench") => compare(1, 1),
        [] => compare(20, 200),
        [rounds] => compare(rounds.parse()?, 200),
        [rounds, mb, ..] => compare(rounds.parse()?, mb.parse()?),
    }
}

/// What is measured in one stack: its CUBIC first.
fn all(theirs: &'static str, bbr: &'static str) -> impl Iterator<Item = &'static str> {
    [theirs].into_iter().chain(OURS).chain([bbr])
}

fn compare(rounds: usize, mb: u64) -> Outcome<()> {
    for [stack, theirs, bbr] in STACKS {
        let all: Vec<&str> = all(theirs, bbr).collect();
        let mut costs = vec![Vec::new(); all.len()];
        for round in 0..rounds {
            let forth: Vec<usize> = (0..all.len()).collect();
            let back: Vec<usize> = forth.iter().rev().copied().collect();
            for at in if round % 2 == 0 { forth } else { back } {
                costs[at].push(in_a_process(stack, all[at], mb)?);
            }
        }
        let each = |of: &[Cost], value: fn(&Cost) -> f64| median(&of.iter().map(value).collect::<Vec<_>>());
        let text = |of: &[Cost]| {
            let per_gb = each(of, |c| c.cpu_s) * 1000.0 / mb as f64;
            format!("{per_gb:.3} s/GB, sent {:.3} times", each(of, |c| c.sent) / (mb as f64 * 1e6))
        };
        println!("{theirs}: {} ({rounds} rounds of {mb} MB)", text(&costs[0]));
        for (cc, cost) in all.iter().zip(&costs).skip(1) {
            let ratios: Vec<f64> = cost.iter().zip(&costs[0]).map(|(a, b)| a.cpu_s / b.cpu_s).collect();
            let [low, high] = interval(&ratios);
            println!("  {cc} in {stack}: {}, ratio {:.3} [{low:.3}, {high:.3}]", text(cost), median(&ratios));
        }
    }
    Ok(())
}

/// What a transfer cost: CPU seconds, and the bytes that left the sender's socket.
#[derive(Clone)]
struct Cost {
    cpu_s: f64,
    sent: f64,
}

fn in_a_process(stack: &str, cc: &str, mb: u64) -> Outcome<Cost> {
    let output = Command::new(std::env::current_exe()?).args(["one", stack, cc, &mb.to_string()]).output()?;
    if !output.status.success() {
        return Err(format!("{cc} in {stack}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let line = String::from_utf8(output.stdout)?;
    let (cpu_s, sent) = line.trim().split_once(' ').ok_or("not two figures")?;
    Ok(Cost { cpu_s: cpu_s.parse()?, sent: sent.parse()? })
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 { f64::NAN } else { (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0 }
}

fn interval(of: &[f64]) -> [f64; 2] {
    let mut rng = Rng::new(1, 0);
    let mut pick = || of[rng.below(of.len() as u64) as usize];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sample: Vec<f64> = of.iter().map(|_| pick()).collect();
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    [medians[RESAMPLES / 40], medians[RESAMPLES - RESAMPLES / 40 - 1]]
}

/// CPU seconds that this process has used.
fn cpu_s() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Sends one bulk stream of `mb` MB over loopback.
fn one_transfer(stack: &str, cc: &str, mb: usize) -> Outcome<Cost> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match stack {
            "noq" => noq(cc, mb).await,
            _ => quinn(cc, mb).await,
        }
    })
}

/// Makes the same function for both stacks, because their types have the same names and are different types.
macro_rules! transfer {
    ($stack:ident) => {
        async fn $stack(cc: &str, mb: usize) -> Outcome<Cost> {
            use ::$stack::congestion::ControllerFactory;
            use ::$stack::{Endpoint, TokioRuntime};
            use headway_cc::quic::sim::$stack::net::{NAME, Setup};
            use headway_cc::quic::sim::$stack::own;
            let factory: Arc<dyn ControllerFactory + Send + Sync> = match own(cc) {
                Some(own) => own,
                None => Arc::new(Factory::named(cc)?),
            };
            let setup = Setup::new(1, 1, factory, |_| ());
            let [server, client] = setup.endpoints;
            let socket = || std::net::UdpSocket::bind("127.0.0.1:0");
            let server = Endpoint::new(server, Some(setup.server), socket()?, Arc::new(TokioRuntime))?;
            let client = Endpoint::new(client, None, socket()?, Arc::new(TokioRuntime))?;
            let to = server.local_addr()?;
            let sending = tokio::spawn(async move {
                let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
                let before = cpu_s();
                let mut stream = connection.open_uni().await?;
                let block = vec![0; 1_000_000];
                for _ in 0..mb {
                    stream.write_all(&block).await?;
                }
                stream.finish()?;
                connection.closed().await;
                Outcome::Ok((before, connection.stats().udp_tx.bytes as f64))
            });
            let connection = client.connect_with(setup.client, to, NAME)?.await?;
            let mut stream = connection.accept_uni().await?;
            let mut buffer = vec![0; 1 << 20];
            let mut received = 0;
            while let Some(n) = stream.read(&mut buffer).await? {
                received += n;
            }
            let after = cpu_s();
            assert_eq!(received, mb * 1_000_000);
            connection.close(0u32.into(), b"");
            let (before, sent) = sending.await??;
            Ok(Cost { cpu_s: after - before, sent })
        }
    };
}

transfer!(noq);
transfer!(quinn);
