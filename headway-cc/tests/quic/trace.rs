//! The ACK trace of an adapter, read back.

use headway_cc::cc::bbr3::Mode;
use headway_cc::cc::row::Word;
use headway_cc::cc::{Ack, Control, controller};
use headway_cc::quic::Factory;
use std::sync::{Arc, Mutex};

/// Collects the lines of a factory.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<String>>>);

/// One event.
pub struct Row {
    pub flow: String,
    pub ack: Ack,
    pub control: Control,
    state: Vec<u64>,
    names: Arc<[String]>,
}

impl Row {
    /// A field of the controller's state.
    pub fn state(&self, name: &str) -> u64 {
        let at = self.names.iter().position(|n| n == name);
        self.state[at.unwrap_or_else(|| panic!("no field {name}"))]
    }

    /// A field of bbr3's state with a type of its own.
    pub fn value<T: Word>(&self, name: &str) -> T {
        T::from_word(self.state(name)).unwrap_or_else(|| panic!("{name}"))
    }

    /// The state of bbr3's state machine.
    pub fn mode(&self) -> Mode {
        self.value("state")
    }
}

impl Trace {
    /// A factory of `cc` that writes here.
    pub fn of(cc: &str) -> (Self, Factory) {
        let trace = Self::default();
        let lines = trace.0.clone();
        let factory = Factory::named(cc).unwrap();
        (trace, factory.trace(move |line| lines.lock().unwrap().push(line.into())))
    }

    pub fn rows(&self) -> Vec<Row> {
        let lines = self.0.lock().unwrap();
        let columns: Vec<&str> = lines[0].strip_prefix("# flow ").unwrap().split(' ').collect();
        let (acks, rest) = columns.split_at(Ack::FIELDS.len());
        assert_eq!(acks, Ack::FIELDS);
        let names = rest[Control::FIELDS.len()..].iter().map(|n| n.split_once('.').unwrap().1.to_string());
        let names: Arc<[String]> = names.collect();
        let row = |line: &String| {
            let (flow, rest) = line.split_once(' ').unwrap();
            let words: Vec<u64> = rest.split(' ').map(|w| w.parse().unwrap()).collect();
            let (ack, rest) = words.split_at(Ack::FIELDS.len());
            let (control, state) = rest.split_at(Control::FIELDS.len());
            Row {
                flow: flow.into(),
                ack: Ack::from_words(ack).unwrap(),
                control: Control::from_words(control).unwrap(),
                state: state.into(),
                names: names.clone(),
            }
        };
        lines[1..].iter().map(row).collect()
    }

    /// Replays the trace: the controller alone decides what it decided in the stack.
    pub fn replay(&self, cc: &str) -> usize {
        let rows = self.rows();
        let mut flows = std::collections::HashMap::new();
        for (i, row) in rows.iter().enumerate() {
            let cc = flows.entry(row.flow.clone()).or_insert_with(|| controller(cc).unwrap());
            assert_eq!(cc.on_event(&row.ack), row.control, "event {i}");
            assert_eq!(cc.state(), row.state, "event {i}");
        }
        rows.len()
    }
}
