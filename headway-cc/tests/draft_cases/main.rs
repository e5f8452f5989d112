//! The checklist of draft-ietf-ccwg-bbr, row by row: a test's name begins with its row's ID, a family of rows is a
//! module. `rows.txt` names the rows; [`every_row_has_its_test`] holds names and rows together.

mod ack;
mod ack_aggregation;
mod against_linux;
mod ambiguities;
mod app_limited;
mod caution;
mod coexistence;
mod constants;
mod cruise;
mod cwnd;
mod delivery_rate;
mod down;
mod draft_changes;
mod drain;
mod driver;
mod ecn;
mod full_pipe;
mod idle;
mod init;
mod long_term;
mod loss;
mod max_bw;
mod min_rtt;
mod offload;
mod pacing;
mod probe_rtt;
mod recovery;
mod refill;
mod round;
mod rtt;
mod send_quantum;
mod short_term;
mod simulated;
mod startup;
mod undo;
mod up;
mod whole;

use std::collections::HashSet;
use std::io::Write;

const ROWS: &str = include_str!("rows.txt");
const SPEC: &str = include_str!("../../../docs/reference/draft.md");

/// The text of each module with tests.
macro_rules! sources {
    ($($name:ident)+) => { [$((stringify!($name), include_str!(concat!(stringify!($name), ".rs")))),+] };
}

const SOURCES: &[(&str, &str)] = &sources!(
    constants init delivery_rate app_limited rtt ack round max_bw full_pipe startup drain down cruise
    refill up caution coexistence long_term loss short_term ack_aggregation min_rtt probe_rtt idle undo
    recovery pacing send_quantum offload cwnd ecn simulated draft_changes ambiguities against_linux
);

/// Whether a test whose name begins with this ID is compiled.
fn has_test(id: &str) -> bool {
    let head = format!("#[test]\nfn {}_", id.to_lowercase().replace('-', "_"));
    let is_module = |name: &str| include_str!("main.rs").contains(&format!("\nmod {name};\n"));
    SOURCES.iter().any(|(name, text)| text.contains(&head) && is_module(name))
}

#[test]
fn every_row_has_its_test() {
    let (_, reasons) =
        SPEC.split_once("| row without a test |").expect("the table in docs/reference/draft.md");
    let (mut ids, mut missing, mut listed) = (HashSet::new(), Vec::new(), 0);
    for row in ROWS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = row.split(" | ").collect();
        let [id, _section, _what, rest @ ..] = &fields[..] else { panic!("not a row: {row}") };
        assert!(ids.insert(*id), "{id} is there twice");
        match (rest.len(), has_test(id)) {
            (0, false) => missing.push(*id),
            (0, true) => {}
            (1, false) => {
                assert!(reasons.contains(id), "{id} has no reason in docs/reference/draft.md");
                listed += 1;
            }
            _ => panic!("{id} is listed and tested"),
        }
    }
    let tested = ids.len() - listed - missing.len();
    let line = format!("{} rows: {tested} tested, {listed} listed in docs/reference/draft.md\n", ids.len());
    // Written past the capture of a passing test's output, so that every run shows it.
    std::io::stderr().write_all(line.as_bytes()).expect("stderr");
    assert!(missing.is_empty(), "rows without a test: {}", missing.join(" "));
}
