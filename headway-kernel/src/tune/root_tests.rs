//! Root tests: new parameters under a thousand open connections, and the traces of what had the old ones and the new.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::object::{RING, map_of};
use crate::private::{demand, here, in_guests};
use crate::programs::Program;
use crate::trace::Columns;
use crate::{Flow, Trace, Watcher, loaded, register, replay, unload};

const NAME: &str = "hwtune";
const OTHER: &str = "hwboth";

#[test]
fn root_a_thousand_connections_keep_what_they_have() {
    here("tune::root_tests::a_thousand_connections");
}

#[test]
fn root_both_generations_replay() {
    here("tune::root_tests::both_generations");
}

#[test]
#[ignore = "three kernels: `make test-long`"]
fn long_lab_tuning_works_on_each_kernel() {
    in_guests("tune::root_tests::a_thousand_connections");
    in_guests("tune::root_tests::both_generations");
}

type Pair = (TcpStream, TcpStream);

fn open(listener: &TcpListener, n: usize) -> Vec<Pair> {
    let to = listener.local_addr().unwrap();
    (0..n).map(|_| (TcpStream::connect(to).unwrap(), listener.accept().unwrap().0)).collect()
}

/// Both ways, whatever the buffers hold.
fn transfer(pairs: &[Pair], bytes: usize) {
    for (near, far) in pairs {
        for (mut from, mut to) in [(near, far), (far, near)] {
            std::thread::scope(|scope| {
                scope.spawn(move || from.write_all(&vec![0; bytes]).unwrap());
                to.read_exact(&mut vec![0; bytes]).unwrap();
            });
        }
    }
}

/// How many flows of the name there are by generation.
fn by_generation(watcher: &mut Watcher, generation: u32) -> (usize, usize) {
    let (mut of, mut others) = (0, 0);
    let count = |f: Flow| {
        if *f.socket.name == *NAME && f.socket.state == "ESTAB" {
            *(if f.generation == generation { &mut of } else { &mut others }) += 1;
        }
    };
    watcher.flows(count).unwrap();
    (of, others)
}

#[test]
#[ignore = "run by another test"]
fn a_thousand_connections() {
    demand();
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    Order::new("bbr3", Some(NAME), Vec::<String>::new()).unwrap().load().unwrap();
    let before = read_line(DEFAULT).unwrap();
    fs::write(DEFAULT, NAME).unwrap();
    // The near ends take the default, and the far ends what their listener has chosen.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_tcp_congestion(&listener, NAME).unwrap();
    let old = open(&listener, 500);
    transfer(&old, 2000);
    let first = loaded().unwrap()[0].generation;
    let mut watcher = Watcher::new().unwrap();
    assert_eq!(by_generation(&mut watcher, first), (1000, 0));

    let tuned =
        Order::new("bbr3", Some(NAME), ["default_cwnd_gain=2.5".to_string()]).unwrap().tune().unwrap();
    println!("tuned under 1000 connections: gap {:?}, {} listeners set again", tuned.gap, tuned.listeners);
    let second = tuned.loaded.generation;
    assert!(second != first && tuned.listeners == 1);
    assert_eq!(tuned.gap.is_none(), Api::of_kernel().unwrap().has_links);
    assert_eq!(loaded().unwrap()[0].settings.as_deref(), Some(&["default_cwnd_gain=2.5".to_string()][..]));
    assert_eq!(read_line(DEFAULT).as_deref(), Some(NAME));
    transfer(&old, 2000);
    assert_eq!(by_generation(&mut watcher, first), (1000, 0), "open connections keep theirs");
    let new = open(&listener, 100);
    transfer(&new, 2000);
    assert_eq!(by_generation(&mut watcher, second), (200, 1000), "new ones get the new, at both ends");
    // Whoever chooses the name again gets the new.
    set_tcp_congestion(&old[0].0, NAME).unwrap();
    transfer(&old[..1], 2000);
    assert_eq!(by_generation(&mut watcher, second), (201, 999));
    assert!(
        old.iter()
            .chain(&new)
            .all(|(a, b)| tcp_congestion(a).unwrap() == NAME && tcp_congestion(b).unwrap() == NAME)
    );

    fs::write(DEFAULT, before).unwrap();
    drop((old, new, listener));
    unload(NAME).unwrap();
    assert!(loaded().unwrap().is_empty());
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Ends a trace and demands that every event replays equal. The answer is how many there were.
fn replayed(trace: Trace, sink: &Sink) -> u64 {
    let traced = trace.finish().unwrap();
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let report = replay(&text).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!((traced.lost, report.events, report.flows), (0, traced.events, 1));
    report.events
}

#[test]
#[ignore = "run by another test"]
#[expect(clippy::too_many_lines, reason = "one story, whose steps depend on each other")]
fn both_generations() {
    demand();
    let program = Program::named("bbr3_brake").unwrap();
    let wanted = |settings: &[&'static str]| Wanted {
        params: program.params.with(settings.iter().copied()).unwrap(),
        ..Wanted::new(program, OTHER, true)
    };
    let api = Api::of_kernel().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let old = open(&listener, 1);
    let mut attached = register(&wanted(&["default_cwnd_gain=2.5"])).unwrap();
    let sinks = [Sink::default(), Sink::default()];
    let first = attached.trace(sinks[0].clone()).unwrap();
    set_tcp_congestion(&old[0].0, OTHER).unwrap();
    transfer(&old, 8 << 20);

    let tuned = wanted(&["default_cwnd_gain=1.5", "loss_thresh_permille=5%"]);
    let mut object = load(&tuned, &api).unwrap();
    let link = match api.has_links {
        true => {
            exchange(&mut object, &attached._link).unwrap();
            None
        }
        false => {
            drop(attached);
            while is_registered(OTHER) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Some(crate::object::put_in_force(&mut table_of(&mut object).unwrap()).unwrap())
        }
    };
    let columns = Columns::of(program, &tuned.params).unwrap();
    let (ring, counters) =
        (map_of(&object, RING).unwrap(), map_of(&object, crate::object::COUNTERS).unwrap());
    let second = Trace::start(ring, counters, columns, Box::new(sinks[1].clone())).unwrap();
    let before = sinks[0].0.lock().unwrap().len();
    transfer(&old, 8 << 20);
    let new = open(&listener, 1);
    set_tcp_congestion(&new[0].0, OTHER).unwrap();
    transfer(&new, 8 << 20);
    let events = [replayed(first, &sinks[0]), replayed(second, &sinks[1])];
    println!("replayed equal: {} events with the old parameters, {} with the new", events[0], events[1]);
    assert!(events.iter().all(|n| *n > 10), "{events:?}");
    assert!(sinks[0].0.lock().unwrap().len() > before, "the old flow goes on in the old trace");
    drop((old, new));
    if let Some(link) = link {
        drop(link);
        crate::Undo(map_of(&object, crate::object::TABLE).unwrap()).run();
    }
}
