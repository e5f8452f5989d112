//! Whether a controller is told of each loss once, and of each packet how much was in flight with it.

use super::*;

#[test]
fn root_losses_are_told_once_and_samples_find_their_entry() {
    let Some(told) = told_without_a_gap(|| traced_program(&PROGRAMS[1], 'm', TROUBLE)) else { return };
    assert!(told.samples > 1000 && told.by_timer > 0, "{told:?}");
}

/// A lost tail that a probe repairs is never marked lost, but the controller hears of it.
#[test]
fn root_repaired_tails_are_told() {
    let Some(run) = traced_program(
        &PROGRAMS[1],
        'n',
        &between("root_tests::losses::echoes", "root_tests::losses::loses_tails"),
    ) else {
        return;
    };
    let told = told_of(&run);
    println!("{told:?}");
    assert!((TAILS / 2..=TAILS).contains(&told.repaired) && told.by_timer == 0, "{told:?}");
}

/// Packets that were in flight when the socket switched to us have no entry in the ring: it is unknown, and not
/// wrong, how much was in flight with them.
#[test]
fn root_a_socket_switches_amid_its_data() {
    let Some(run) =
        traced_program(&PROGRAMS[1], 'p', &between("root_tests::swallows", "root_tests::losses::switches"))
    else {
        return;
    };
    let told = told_of(&run);
    println!("{told:?} {:?}", run.counters);
    let unknown = told.samples - told.known;
    assert_eq!((run.counters.flows, run.counters.without_storage), (SWITCHES, 0));
    assert!(told.known > 1000 && unknown > 0 && unknown <= run.counters.unknown, "{told:?}");
}

const SWITCHES: u64 = 20;

#[test]
#[ignore = "run by another test"]
fn switches() {
    let mut near = TcpStream::connect("10.9.2.1:5202").unwrap();
    for _ in 0..SWITCHES {
        near.write_all(&vec![0; 1 << 18]).unwrap();
        choose(&near, &std::env::var("CC").unwrap()).unwrap();
        // Enough for the samples that are asked for where a busy machine gathers ACKs.
        near.write_all(&vec![0; 1 << 20]).unwrap();
        choose(&near, "reno").unwrap();
    }
}

const TAILS: u64 = 8;

#[test]
#[ignore = "run by another test"]
fn echoes() {
    let (mut far, _) = TcpListener::bind("0.0.0.0:5202").unwrap().accept().unwrap();
    let mut message = [0; 100];
    while far.read_exact(&mut message).is_ok() {
        far.write_all(&message).unwrap();
    }
}

#[test]
#[ignore = "run by another test"]
fn loses_tails() {
    let router = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/9").unwrap();
    let forwards = |digit: &[u8]| assert_eq!(router.write_at(digit, 0).unwrap(), 1);
    let mut near = TcpStream::connect("10.9.2.1:5202").unwrap();
    choose(&near, &std::env::var("CC").unwrap()).unwrap();
    near.set_nodelay(true).unwrap();
    for i in 0..2 * TAILS + 20 {
        let is_lost = i >= 20 && i % 2 == 0;
        forwards(if is_lost { b"0" } else { b"1" });
        near.write_all(&[0; 100]).unwrap();
        forwards(b"1");
        near.read_exact(&mut [0; 100]).unwrap();
    }
}

/// What a trace of `bbr3` tells of losses.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// ACKs that marked losses of their own; then losses marked by timers, and by ACKs that the kernel processed
    /// without calling us; then tails that a probe repaired.
    by_ack: u64,
    by_timer: u64,
    unseen: u64,
    repaired: u64,
    /// ACKs with a sample, and of these, those for whose packet it is known how much was in flight.
    samples: u64,
    known: u64,
}

/// Demands that the controller hears of each packet that the kernel counts as lost once, and before the event that it
/// caused: of an ACK's own losses before the ACK, and of no others unless something was marked between two ACKs that
/// we saw.
fn told_of(run: &Run) -> Told {
    let rows: Vec<(&str, Vec<u64>)> = run.text.lines().skip(1).map(|l| split_row(l).unwrap()).collect();
    let (mut last, mut last_ack) = (std::collections::HashMap::new(), std::collections::HashMap::new());
    let mut told = Told::default();
    for (flow, words) in &rows {
        let ack = Ack::from_words(&words[..Ack::FIELDS.len()]).unwrap();
        let before = last.insert(*flow, ack).unwrap_or(Ack { lost: ack.lost, ..Ack::default() });
        if ack.event == Event::Lost {
            let marked = ack.lost - before.lost;
            assert!(ack.newly_lost == marked || (marked, ack.newly_lost) == (0, 1), "{before:?} {ack:?}");
            assert!(ack.rs_tx_in_flight > 0 || ack.rs_lost == 0, "{ack:?}");
            told.repaired += u64::from(marked == 0);
        } else {
            assert_eq!(ack.lost, before.lost, "not told of: {before:?} {ack:?}");
        }
        if matches!(ack.event, Event::Init | Event::Ack) {
            let before: Ack = last_ack.insert(*flow, ack).unwrap_or(ack);
            let (told_of, delivered) = (ack.lost - before.lost, ack.delivered - before.delivered);
            assert!(told_of >= ack.newly_lost, "{before:?} {ack:?}");
            let is_elsewhere = told_of > ack.newly_lost;
            told.by_ack += u64::from(ack.newly_lost > 0);
            told.by_timer += u64::from(is_elsewhere && delivered == ack.newly_acked);
            told.unseen += u64::from(is_elsewhere && delivered > ack.newly_acked);
        }
        if ack.event == Event::Ack {
            told.samples += u64::from(ack.newly_acked > 0);
            told.known += u64::from(ack.newly_acked > 0 && ack.rs_tx_in_flight > 0);
        }
    }
    told
}

/// What the first run tells to which the kernel leaves no gap. A busy machine sometimes handles ACKs of which no program of
/// ours is told (docs/explanation/kernel.md, "Where it is wrong"). What they marked lost may then not be found, and once
/// eleven ACKs in a row brought no sample. After such a run another one follows; a mistake of ours would be in each.
pub(super) fn told_without_a_gap(run: impl Fn() -> Option<Run>) -> Option<Told> {
    for _ in 0..4 {
        let run = run()?;
        let told = told_of(&run);
        println!("{told:?} {:?}", run.counters);
        assert!(told.by_ack > 10 && told.samples > 500, "{told:?}");
        if told.unseen == 0 && told.known * 1000 >= told.samples * 999 {
            // Not 0, because RACK's timer may send a packet again that it has just marked, before we can look for it.
            assert!(run.counters.unfound * 10 <= told.by_ack, "{:?}", run.counters);
            return Some(told);
        }
    }
    panic!(
        "ACKs that no program was told of, or samples of packets that are not known, in each of four runs"
    );
}
