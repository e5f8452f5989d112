//! Tests `headway load`, `list` and `unload` on the running kernel. Each test has a BPF file system and a network
//! namespace of its own, so that nothing that it loads can outlive it. Without root the tests skip.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output};

/// The test's thread, in namespaces of its own.
struct Machine {
    /// The controller's name. Every test has another one, because these names are global in the kernel and not of the
    /// namespace.
    name: String,
}

impl Machine {
    /// Moves the calling thread into new namespaces; `None` without root.
    fn new(tag: char) -> Option<Machine> {
        // SAFETY: no pointers but C strings; unshare moves the calling thread alone.
        unsafe {
            if libc::geteuid() != 0 || libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWNET) != 0 {
                println!("skipped: needs root");
                return None;
            }
            let (none, bpf) = (c"none".as_ptr(), c"bpf".as_ptr());
            let private = libc::MS_REC | libc::MS_PRIVATE;
            assert_eq!(libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()), 0);
            assert_eq!(libc::mount(bpf, c"/sys/fs/bpf".as_ptr(), bpf, 0, std::ptr::null()), 0);
        }
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        Some(Machine { name: format!("hl{tag}{}", std::process::id()) })
    }

    /// Runs `headway` with `args`, where NAME stands for this test's name.
    fn run(&self, args: &str) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        command.args(args.replace("NAME", &self.name).split_whitespace());
        command
    }

    /// Runs `headway`, which must succeed, and returns its stdout.
    fn ok(&self, args: &str) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `headway`, which must fail with exit code `code`, and returns the error and its hint.
    fn refused(&self, args: &str, code: i32) -> String {
        let output = self.run(args);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{args}: {said}");
        assert!(said.starts_with("error: ") && said.contains("\nhint: "), "{args}: {said}");
        said
    }

    fn is_registered(&self) -> bool {
        let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        all.split_whitespace().any(|name| name == self.name)
    }

    fn pin(&self) -> std::path::PathBuf {
        Path::new("/sys/fs/bpf/headway/bbr1").join(&self.name)
    }
}

impl Drop for Machine {
    /// Before Linux 6.4 a controller stays registered when the test's namespaces end, so it is unloaded here.
    fn drop(&mut self) {
        self.run("unload --all");
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Moves enough data for many ACKs.
fn exchange(near: &mut TcpStream, far: &mut TcpStream) {
    const BYTES: usize = 4 << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&vec![0; BYTES]).unwrap());
        far.read_exact(&mut vec![0; BYTES]).unwrap();
    });
}

fn choose(socket: &TcpStream, name: &str) {
    let (fd, len) = (socket.as_raw_fd(), name.len() as u32);
    // SAFETY: the pointer and the length describe `name`, which outlives the call.
    let rc =
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len) };
    assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
}

/// The socket's `tcpi_pacing_rate`, in bytes per second.
fn pacing_rate(socket: &TcpStream) -> u64 {
    const AT: usize = 8 + 24 * 4; // in struct tcp_info: behind 8 bytes and 24 words of 32 bits
    let (mut info, mut len) = ([0_u8; AT + 8], (AT + 8) as u32);
    // SAFETY: the kernel writes at most `len` bytes, the size of `info`.
    let rc = unsafe {
        let into = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut len)
    };
    assert_eq!((rc, len as usize), (0, info.len()));
    u64::from_ne_bytes(info[AT..].try_into().unwrap())
}

/// The first pacing rate is the window per round trip, times the gain, so four times the gain must give four times
/// the rate.
#[test]
fn root_a_parameter_is_in_force() {
    let Some(m) = Machine::new('f') else { return };
    let (mut near, mut far) = pair();
    exchange(&mut near, &mut far);
    let [low, high] = [2, 8].map(|gain| {
        m.ok(&format!("load bbr1 --as NAME --set high_gain={gain}"));
        choose(&near, "reno");
        choose(&near, &m.name);
        m.ok("unload NAME");
        pacing_rate(&near)
    });
    assert!(high.abs_diff(4 * low) <= 4, "{low} {high}");
}

#[test]
fn root_it_stays_is_listed_and_leaves_connections_alone() {
    let Some(m) = Machine::new('a') else { return };
    let said = m.ok("load bbr1 --as NAME --set high_gain=2.9 --set min_rtt_win_us=5s,probe_rtt_mode_us=0s");
    assert!(m.is_registered() && said.contains("high_gain=2.9"), "{said}");
    let mut pairs = [pair(), pair(), pair()];
    for (near, far) in &mut pairs {
        choose(near, &m.name);
        exchange(near, far);
    }
    let list = m.ok("list");
    let entry = format!("{:<15} bbr1 with min_rtt_win_us=5s,probe_rtt_mode_us=0s,high_gain=2.9, ", m.name);
    assert!(list.contains(&entry) && list.contains("3 sockets now, 3 flows so far\n"), "{list}");
    drop(pairs[2].0.shutdown(std::net::Shutdown::Both));
    choose(&pairs[1].0, "reno");
    let [(near, far), ..] = &mut pairs;
    let said = m.ok("unload NAME");
    assert!(said.contains("2 keep it: open sockets"), "{said}");
    assert!(!m.is_registered() && !m.pin().exists());
    assert!(!Path::new("/sys/fs/bpf/headway").exists(), "empty folders go too");
    exchange(near, far);
    exchange(far, near);
    assert!(m.ok("list --loaded").contains("nothing by us"));
    assert!(m.refused("unload NAME", 1).contains("it is not loaded"));
    // The name is free again, although the controller that had it still serves its sockets.
    m.ok("load bbr1 --as NAME");
    exchange(near, far);
    assert!(m.ok("list --loaded").contains("0 sockets now, 0 flows so far"));
    m.ok("unload --all");
    assert!(!m.is_registered());
}

#[test]
fn root_a_name_that_is_taken_is_refused_and_nothing_changes() {
    let Some(m) = Machine::new('b') else { return };
    m.ok("load bbr1 --as NAME --set cwnd_gain=1.5");
    let said = m.refused("load bbr1 --as NAME", 1);
    assert!(said.contains("loaded already") && said.contains("cwnd_gain=1.5"), "{said}");
    assert!(said.contains(&format!("`headway unload {}` first", m.name)), "{said}");
    assert!(m.ok("list --loaded").contains("with cwnd_gain=1.5, "));
    let said = m.refused("load bbr1 --as reno", 1);
    assert!(
        said.contains("the kernel has a congestion control `reno`") && said.contains("--as NAME"),
        "{said}"
    );
    assert!(m.refused("unload reno", 1).contains("not from `headway load`"));
    // In another mount namespace, such as a container's, the pin is not visible, but the name is taken all the same,
    // because names are global in the kernel.
    let elsewhere = std::thread::scope(|s| {
        s.spawn(|| Machine::new('x').unwrap().refused(&format!("load bbr1 --as {}", m.name), 1))
            .join()
            .unwrap()
    });
    assert!(elsewhere.contains("not from `headway load`"), "{elsewhere}");
    assert!(m.is_registered());
}

#[test]
fn root_the_default_of_new_connections_is_not_unloaded() {
    let Some(m) = Machine::new('c') else { return };
    let default = "/proc/sys/net/ipv4/tcp_congestion_control";
    m.ok("load bbr1 --as NAME");
    fs::write(default, &m.name).unwrap();
    assert!(m.refused("unload NAME", 1).contains("default of new connections"));
    assert!(m.refused("unload --all", 1).contains("tcp_congestion_control=cubic"));
    let (mut near, mut far) = pair();
    exchange(&mut near, &mut far);
    assert!(m.ok("list --loaded").contains("3 sockets now, 2 flows so far"), "both ends, and the namespace");
    fs::write(default, "reno").unwrap();
    m.ok("unload NAME");
    exchange(&mut near, &mut far);
}

/// A load that is killed or interrupted at any moment leaves either nothing or a complete controller.
#[test]
fn root_an_interrupted_load_leaves_nothing_or_the_whole() {
    let Some(m) = Machine::new('d') else { return };
    let mut wholes = 0;
    for ms in (1..300).step_by(12) {
        let signal = if ms % 8 == 1 { "KILL" } else { "INT" };
        let seconds = format!("0.{ms:03}");
        let mut load = Command::new("timeout");
        load.args(["-s", signal, &seconds, env!("CARGO_BIN_EXE_headway"), "load", "bbr1", "--as", &m.name]);
        load.output().unwrap();
        let listed = m.ok("list --loaded").contains(&m.name);
        assert_eq!((m.is_registered(), m.pin().exists()), (listed, listed), "after {ms} ms");
        if listed {
            wholes += 1;
            m.ok("unload NAME");
        }
    }
    println!("{wholes} loads were done before they were stopped");
    m.ok("load bbr1 --as NAME");
}

#[test]
fn root_what_is_missing_is_said_with_what_mends_it() {
    let Some(m) = Machine::new('e') else { return };
    let mut bare = Command::new("setpriv");
    bare.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_headway"), "load", "bbr1"]);
    let output = bare.output().unwrap();
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains("hint: run as root"), "{said}");
    for (args, code, words) in [("list --loaded", 0, "only root"), ("unload reno", 1, "hint: run as root")] {
        let mut bare = Command::new("setpriv");
        bare.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_headway")]);
        let output = bare.args(args.split(' ')).output().unwrap();
        let said = text(&output);
        assert!(output.status.code() == Some(code) && said.contains(words), "{said}");
    }
    // SAFETY: C strings and no other pointers; the mount is this thread's alone.
    let rc = unsafe {
        let tmpfs = c"tmpfs".as_ptr();
        libc::mount(tmpfs, c"/sys/fs/bpf".as_ptr(), tmpfs, 0, std::ptr::null())
    };
    assert_eq!(rc, 0);
    for args in ["load bbr1 --as NAME", "unload NAME"] {
        let said = m.refused(args, 1);
        assert!(said.contains("\nhint: mount -t bpf bpf /sys/fs/bpf"), "{said}");
    }
    assert!(!m.is_registered());
    let doctor = text(&m.run("doctor"));
    let load = doctor.split_once("load: not ready\n").expect("a verdict on loading").1;
    assert!(
        load.contains("MISSING BPF file system\n          hint: mount -t bpf bpf /sys/fs/bpf\n"),
        "{doctor}"
    );
}
