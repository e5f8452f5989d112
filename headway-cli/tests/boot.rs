//! What is enabled comes back at boot: guests of the lab that boot stock kernels one after the other with the same disk, and
//! run what the units of systemd run, at the same points. What is in force is asked of the kernel and of iperf3, which reads the
//! congestion control back from its own sockets.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a boot of the guest finds and does. There is no init, so the script stands for it: file systems, the early unit, a
/// service with its cgroup, the late unit unless the boot stops before, traffic, and what is left on the disk.
const INIT: &str = r#"
exec 2>&1
export PATH=/bin
mount -t cgroup2 none /sys/fs/cgroup
# Guests draw the same random numbers, and so would all boots have one number.
mount --bind /boot_id /proc/sys/kernel/random/boot_id
h() { /init "$@"; echo "[exit $?]"; }
default() { echo "default: $(cat /proc/sys/net/ipv4/tcp_congestion_control)"; }
. /before
default
echo "early:"; h apply --boot
default
mkdir -p /sys/fs/cgroup/svc.slice
if [ -n "$LATE" ]; then echo "late:"; h apply --late; fi
for port in 4000 5000; do
	iperf3 -s -1 -p $port > /dev/null &
	sleep 0.3
	iperf3 -c 127.0.0.1 -p $port -n 100K -J | grep _tcp_congestion
	wait
done
(read -r PID REST < /proc/self/stat; echo $PID > /sys/fs/cgroup/svc.slice/cgroup.procs
 iperf3 -s -1 -p 6000 > /dev/null & sleep 0.3; iperf3 -c 127.0.0.1 -p 6000 -n 100K -J | grep sender_tcp; wait)
h status
# Two connections that are open, of which this walks over the kernel's own list.
iperf3 -s -1 -p 4000 > /dev/null &
sleep 0.3
iperf3 -c 127.0.0.1 -p 4000 -t 2 -b 1M > /dev/null &
sleep 1
/init watch --once
wait
/init metrics | grep scope_in_force
for file in /etc/headway/enabled.d/*.toml /var/lib/headway/*.json; do
	[ -f "$file" ] || continue
	echo "FILE $file"; cat "$file"
done
echo; echo "END"
"#;

/// The disk of a machine that is booted again and again.
struct Machine {
    kernel: String,
    disk: PathBuf,
    boots: Cell<u32>,
}

impl Machine {
    fn new(kernel: &str) -> Option<Machine> {
        let cached = PathBuf::from(std::env::var_os("HOME")?).join(".cache/headway/kernels");
        let is_there = fs::read_dir(cached).is_ok_and(|mut files| {
            files.any(|f| f.is_ok_and(|f| f.file_name().to_string_lossy().starts_with(&format!("{kernel}."))))
        });
        if !is_there {
            println!("skipped: Linux {kernel} is not here (make lab-kernels)");
            return None;
        }
        let disk = std::env::temp_dir().join(format!("headway-disk-{kernel}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&disk);
        fs::create_dir_all(disk.join("etc/headway/enabled.d")).unwrap();
        fs::create_dir_all(disk.join("var/lib/headway")).unwrap();
        fs::create_dir_all(disk.join("etc/alternatives")).unwrap();
        fs::write(disk.join("init.sh"), INIT).unwrap();
        Some(Machine { kernel: kernel.into(), disk, boots: Cell::new(0) })
    }

    fn enable(&self, name: &str, text: &str) {
        fs::write(self.disk.join(format!("etc/headway/enabled.d/{name}.toml")), text).unwrap();
    }

    /// Boots once. `before` is run ahead of the units, and a boot that does not get through has no late unit.
    fn boot(&self, gets_through: bool, before: &str) -> String {
        self.boots.set(self.boots.get() + 1);
        fs::write(self.disk.join("boot_id"), format!("{}\n", self.boots.get())).unwrap();
        let late = if gets_through { "LATE=1\n" } else { "LATE=\n" };
        fs::write(self.disk.join("before"), format!("{late}{before}\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_headway"))
            .args([
                "in-lab",
                "--kernel",
                &self.kernel,
                "--tool",
                "iperf3,sh,cat,mkdir,mount,sleep,grep",
                "--root",
            ])
            .arg(&self.disk)
            .arg("sh /init.sh")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        println!("Linux {}: {said}", self.kernel);
        assert!(said.contains("\nEND\n"), "{said}");
        self.keep(&said);
        said
    }

    /// Writes to the disk what the guest left there.
    fn keep(&self, said: &str) {
        for folder in ["etc/headway/enabled.d", "var/lib/headway"] {
            for file in fs::read_dir(self.disk.join(folder)).unwrap() {
                fs::remove_file(file.unwrap().path()).unwrap();
            }
        }
        let files = said.split("\nEND\n").next().unwrap();
        for file in files.split("\nFILE /").skip(1) {
            let (name, text) = file.split_once('\n').unwrap();
            fs::write(self.disk.join(name), format!("{}\n", text.trim_end_matches('\n'))).unwrap();
        }
    }

    fn has_note(&self) -> bool {
        Path::new(&self.disk).join("var/lib/headway/boot.json").exists()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.disk);
    }
}

fn in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for word in wanted {
        let at = rest.find(word).unwrap_or_else(|| panic!("no `{word}` where it should be:\n{text}"));
        rest = &rest[at + word.len()..];
    }
}

const DEFAULT: &str = "version = 1\ncontroller = \"bbr3_brake\"\n[[scope]]\ndefault = true\n";
const SCOPED: &str = "version = 1\ncontroller = \"bbr1\"\n[parameters]\nhigh_gain = \"2.9\"\n\
                      [[scope]]\nports = [\"4000\"]\n[[scope]]\ncgroup = \"svc.slice\"\nports = [\"6000\"]\n";

/// What iperf3 says of both its ends, on port 4000 and on 5000, and in the cgroup.
const IN_FORCE: [&str; 5] = [
    "\"sender_tcp_congestion\":\t\"mine\"",
    "\"receiver_tcp_congestion\":\t\"mine\"",
    "\"sender_tcp_congestion\":\t\"bbr3_brake\"",
    "\"receiver_tcp_congestion\":\t\"bbr3_brake\"",
    "\"sender_tcp_congestion\":\t\"mine\"",
];

/// A first boot, in which the service's cgroup comes late.
fn comes_back(machine: &Machine) {
    machine.enable("bbr3_brake", DEFAULT);
    machine.enable("mine", SCOPED);
    let said = machine.boot(true, "");
    in_order(
        &said,
        &["default: ", "early:\n", "there is no cgroup", "[exit 0]", "default: bbr3_brake\n", "late:\n"],
    );
    in_order(&said, &IN_FORCE);
    in_order(&said, &["Everything that is enabled is in force.", "[exit 0]", "scope=\"default\"} 1\n"]);
    in_order(&said, &["mine: ", " flows, ", "127.0.0.1:4000 "]);
    assert!(!said.contains("scope_in_force{cc=\"mine\",scope=\"port 4000\"} 0"), "{said}");
    assert!(!machine.has_note(), "it got through");
}

fn boots(kernel: &str) {
    let Some(machine) = Machine::new(kernel) else { return };
    comes_back(&machine);
    // A second one, which hangs after the early unit.
    let said = machine.boot(false, "");
    in_order(&said, &["early:\n", "default: bbr3_brake\n"]);
    assert!(machine.has_note());
    // So the third is without us, and the next tries again.
    let said = machine.boot(true, "");
    in_order(
        &said,
        &[
            "early:\n",
            "warning: the last boot with our controllers did not get through",
            "[exit 0]",
            "default: ",
        ],
    );
    assert!(!said.contains("default: bbr3_brake"), "{said}");
    in_order(&said, &["late:\n", "[exit 0]", "NOT everything", "the next boot tries again", "[exit 3]"]);
    let said = machine.boot(true, "");
    in_order(&said, &["default: bbr3_brake\n", "[exit 0]"]);
    in_order(&said, &IN_FORCE);
    assert!(!machine.has_note());
    // A kernel that refuses the programs, as one does that keeps its memory from programs of BPF: it keeps its default,
    // and the boot goes on.
    let lock =
        "mount -t securityfs none /sys/kernel/security\necho confidentiality > /sys/kernel/security/lockdown";
    let said = machine.boot(true, lock);
    in_order(
        &said,
        &["early:\n", "warning: `bbr3_brake` is not in force", "is locked down", "[exit 0]", "default: "],
    );
    assert!(!said.contains("default: bbr3_brake"), "{said}");
    in_order(&said, &["late:\n", "[exit 0]", "NOT everything", "[exit 3]"]);
}

#[test]
fn what_is_enabled_comes_back_at_boot() {
    let Some(machine) = Machine::new("6.12") else { return };
    comes_back(&machine);
}

#[test]
#[ignore = "15 boots: `make test-long`"]
fn long_a_boot_that_does_not_get_through_is_not_repeated() {
    ["6.1", "6.12", "7.2"].into_iter().for_each(boots);
}
