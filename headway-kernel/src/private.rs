//! Where the root tests of assignments and of tuning run: a child of the test in namespaces of its own, or this very test
//! program in a guest of the lab, for kernels that are not the running one. Nothing of the machine's is touched.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::need::has_rights;

/// The kernels of the lab, where they have been fetched.
const KERNELS: [&str; 3] = ["6.1", "6.12", "7.2"];

/// Runs one of the ignored tests in namespaces of its own. The script is what the child finds there: a loopback device that
/// works, an empty BPF file system, and as many open files as one may have.
pub(crate) fn here(test: &str) {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let script =
        "mount -t bpf bpf /sys/fs/bpf && ip link set lo up && ulimit -n $(ulimit -Hn) && exec \"$@\"";
    let mut command = Command::new("timeout");
    command.args([
        "120",
        "unshare",
        "--net",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    command.arg(std::env::current_exe().unwrap()).args(arguments(test));
    let output = command.env(PRIVATE, "1").output().unwrap();
    let said = text_of(&output);
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Ends a test that somebody has started by itself: on the machine it would change what must not change.
pub(crate) fn demand() {
    let is_guest = std::path::Path::new("/modules").is_dir();
    assert!(is_guest || std::env::var_os(PRIVATE).is_some(), "this test is run by another one");
}

/// Set for the tests that are run by another one.
const PRIVATE: &str = "HEADWAY_PRIVATE";

/// Runs one of the ignored tests in a guest of the lab for each kernel, by the program `headway` as cargo has built it.
pub(crate) fn in_guests(test: &str) {
    let me = std::env::current_exe().unwrap();
    let headway = me.parent().and_then(|deps| deps.parent()).unwrap().join("headway");
    let name = me.file_name().unwrap().to_string_lossy();
    for kernel in KERNELS {
        let command = format!("{name} {}", arguments(test).join(" "));
        let output = Command::new(&headway)
            .args(["in-lab", "--kernel", kernel, "--tool"])
            .arg(&me)
            .arg(&command)
            .output();
        let said = output.as_ref().map(text_of).unwrap_or_default();
        assert!(!said.contains("panicked"), "Linux {kernel}: {said}");
        if !output.is_ok_and(|o| o.status.success()) {
            println!(
                "skipped: needs target/debug/headway, QEMU and Linux {kernel} (make lab-kernels) {said}"
            );
            continue;
        }
        println!("Linux {kernel}: {said}");
        assert!(said.contains("1 passed"), "Linux {kernel}: {said}");
    }
}

fn arguments(test: &str) -> [&str; 4] {
    ["--exact", test, "--ignored", "--nocapture"]
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Another process of this test program, which says and is told lines.
pub(crate) struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

/// How the lines of the other process begin that are meant for the test; libtest prints others.
const MARK: &str = "headway-test: ";

pub(crate) fn say(line: &str) {
    println!("\n{MARK}{line}");
}

impl Other {
    /// Starts one of the ignored tests with these variables in its environment.
    pub(crate) fn start(test: &str, variables: &[(&str, String)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments(test))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that was meant for the test.
    pub(crate) fn line(&mut self) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|l| Some(l.strip_prefix(MARK)?.to_string())).expect("the other process ended early")
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    /// Fails where it has ended by itself.
    pub(crate) fn kill(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the other process ended early");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A mount of the hierarchy of cgroups with a cgroup of the test's own, both gone with this value.
pub(crate) struct Cgroups {
    mount: PathBuf,
    /// The test's own cgroup.
    pub(crate) top: PathBuf,
}

impl Cgroups {
    pub(crate) fn new() -> Self {
        let mount_point = std::env::temp_dir().join(format!("headway-cgroups-{}", std::process::id()));
        std::fs::create_dir_all(&mount_point).unwrap();
        mount("cgroup2", &mount_point, "cgroup2", MountFlags::empty(), None).unwrap();
        let top = mount_point.join(format!("headway-test-{}", std::process::id()));
        std::fs::create_dir(&top).unwrap();
        Self { mount: mount_point, top }
    }

    /// A cgroup below the test's own, by its path from there.
    pub(crate) fn below(&self, path: &str) -> PathBuf {
        let path = self.top.join(path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        fn remove(folder: &PathBuf) {
            let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
            below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).for_each(|e| remove(&e.path()));
            let _ = std::fs::remove_dir(folder);
        }
        remove(&self.top);
        let _ = unmount(&self.mount, UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&self.mount);
    }
}

/// A socket that is not connected yet: of TCP, of TCP that sends data in its SYN, or of Multipath TCP.
pub(crate) fn socket_of(kind: &str, is_ipv6: bool) -> OwnedFd {
    let protocol = if kind == "multipath" { libc::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
    let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: the call takes numbers and returns a descriptor of ours, or a negative number.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, protocol) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was just opened for us, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if kind == "fastopen" {
        // A listener's is the length of its queue, a connection's says that connect() is to wait for the first data.
        let option = if is_ipv6 { libc::TCP_FASTOPEN } else { libc::TCP_FASTOPEN_CONNECT };
        set_number(&socket, option, 1);
    }
    socket
}

pub(crate) fn bind_any(listener: &TcpListener, port: u16) {
    let any = std::net::SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), port);
    rustix::net::bind(listener, &any).unwrap();
    rustix::net::listen(listener, 8).unwrap();
}

pub(crate) fn set_number(socket: &impl AsFd, option: i32, value: u32) {
    set_option(socket, option, &value.to_ne_bytes());
}

pub(crate) fn set_option(socket: &impl AsFd, option: i32, value: &[u8]) {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of `value`, which outlives the call.
    let rc =
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, value.as_ptr().cast(), value.len() as u32) };
    assert_eq!(rc, 0, "option {option}: {}", std::io::Error::last_os_error());
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes in use in each of the kernel's slab caches.
pub(crate) fn slab() -> BTreeMap<String, i64> {
    let text = std::fs::read_to_string("/proc/slabinfo").unwrap();
    let caches = text.lines().skip(2).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_string(), words[1].parse::<i64>().unwrap() * words[3].parse::<i64>().unwrap())
    });
    caches.collect()
}

/// Lets the kernel count the calls of BPF programs while it is held.
pub(crate) fn count_calls() -> OwnedFd {
    // SAFETY: the call takes a number and returns a descriptor of ours, or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    assert!(fd >= 0);
    // SAFETY: it was just opened for us, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
