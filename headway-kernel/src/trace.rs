//! The trace: what the BPF programs put into their ring buffer, as lines of text.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headway_cc::cc;
use libbpf_rs::{MapHandle, RingBufferBuilder};

use crate::error::{Context, Error, Result, ensure};
use crate::object::{read_counters, to_words};
use crate::programs::Program;

/// How often the reader empties the ring. It polls because being woken would make each event cost ten times as much.
const POLL: Duration = Duration::from_millis(20);

/// Words of a record before the columns: flow and port (`struct record` in `bpf/tcp.bpf.h`).
pub(crate) const HEAD: usize = 2;

/// What a trace says before its events.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Names of the words of a record after the flow.
    pub(crate) names: Vec<String>,
    /// The parameters that are not the defaults, `NAME=VALUE` each.
    pub(crate) set: Vec<String>,
}

impl Columns {
    /// What a trace of this controller with such parameters says.
    pub(crate) fn of(program: &Program, params: &[u64]) -> Result<Self> {
        let twin = program.twin(params);
        let twin =
            twin.with_context(|| format!("the Rust twin of `{}` has other parameters", program.name))?;
        Ok(Self { names: cc::trace_columns(program.name, &*twin), set: program.params.changed(params) })
    }

    /// The lines before the events.
    pub(crate) fn header(&self) -> String {
        cc::trace_header(&self.names, &self.set)
    }
}

/// A trace that is being written, by a thread of its own. Dropping it ends it and says nothing of failures.
///
/// Each line is one event, its words separated by one space: the flow (`ID:PORT`, the local port, and a new ID each
/// time a socket starts with the controller), then the words of [`Ack`](headway_cc::cc::Ack), of
/// [`Control`](headway_cc::cc::Control) and of the controller's state. The first line, after `# `, names the columns;
/// a line `# set NAME=VALUE …` follows if the controller does not have its default parameters.
#[derive(Debug)]
pub struct Trace {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<u64>>>,
    counters: MapHandle,
    lost_before: u64,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Events written.
    pub events: u64,
    /// Events that found the ring full; with any of these the trace cannot be replayed.
    pub lost: u64,
}

impl Trace {
    pub(crate) fn start(
        ring: MapHandle,
        counters: MapHandle,
        columns: Columns,
        sink: Box<dyn Write + Send>,
    ) -> Result<Trace> {
        let lost_before = read_counters(&counters)?.trace_lost;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let read = move || read(&ring, &columns, sink, &stopped);
        let reader =
            thread::Builder::new().name("acks".into()).spawn(read).context("cannot start a thread")?;
        Ok(Trace { stop, reader: Some(reader), counters, lost_before })
    }

    /// Writes what is still in the ring, then closes the sink. Fails when the sink or the ring did.
    pub fn finish(mut self) -> Result<Traced> {
        let reader = self.end().expect("finish consumes the trace");
        let events = reader.join().map_err(|_| Error::new("the reader of the trace panicked"))??;
        Ok(Traced { events, lost: read_counters(&self.counters)?.trace_lost - self.lost_before })
    }

    /// Tells the reader that no event follows.
    fn end(&mut self) -> Option<JoinHandle<Result<u64>>> {
        self.stop.store(true, Ordering::Release);
        self.reader.take().inspect(|reader| reader.thread().unpark())
    }
}

/// An unfinished trace ends with its owner.
impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(reader) = self.end() {
            let _ = reader.join();
        }
    }
}

fn read(ring: &MapHandle, columns: &Columns, sink: Box<dyn Write + Send>, stop: &AtomicBool) -> Result<u64> {
    let mut sink = BufWriter::new(sink);
    let mut events = 0;
    let mut failure = None;
    sink.write_all(columns.header().as_bytes()).context("cannot write the trace")?;
    let take = |record: &[u8]| match write_line(&mut sink, columns, record) {
        Ok(()) => {
            events += 1;
            0
        }
        Err(e) => {
            failure.get_or_insert(e);
            STOP
        }
    };
    let polled = drain(ring, take, stop);
    if let Some(e) = failure {
        return Err(e);
    }
    polled?;
    sink.flush().context("cannot write the trace")?;
    Ok(events)
}

/// What a callback returns to end the reading.
const STOP: i32 = -1;

fn drain(ring: &MapHandle, take: impl FnMut(&[u8]) -> i32, stop: &AtomicBool) -> Result<()> {
    let mut builder = RingBufferBuilder::new();
    builder.add(ring, take).context("cannot open the trace's ring")?;
    let buffer = builder.build().context("cannot open the trace's ring")?;
    while !stop.load(Ordering::Acquire) {
        buffer.consume().context("cannot read the trace")?;
        thread::park_timeout(POLL);
    }
    buffer.consume().context("cannot read the trace")
}

fn write_line(sink: &mut impl Write, columns: &Columns, record: &[u8]) -> Result<()> {
    let words = to_words(record);
    let expected = HEAD + columns.names.len();
    ensure!(words.len() == expected, "a trace record has {} words, not {expected}", words.len());
    let mut line = format!("{}:{}", words[0], words[1]);
    for word in &words[HEAD..] {
        let _ = write!(line, " {word}");
    }
    line.push('\n');
    sink.write_all(line.as_bytes()).context("cannot write the trace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_rust_twin() {
        for program in crate::programs::PROGRAMS {
            assert!(Columns::of(program, &(program.params.defaults)()).is_ok(), "{}", program.name);
        }
    }
}
