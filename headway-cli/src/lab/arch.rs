//! The machine that the lab emulates, and the command line of the kernel on it: all that is x86-64's, and QEMU's,
//! own. Each choice serves one of two ends: the same bytes on every run, or less work for the emulator.
//! `docs/measurements/method.md` has the measurements.

use super::{job, mailbox};
use crate::plan::wire::Nic;

/// The emulator's program.
pub const EMULATOR: &str = "qemu-system-x86_64";

/// The guest's memory; the mailbox lies inside. Only what the guest touches costs memory on the host.
pub const MEMORY_MIB: u64 = 768;

/// One instruction takes 2^shift nanoseconds of virtual time. Idle time is free, so a faster guest costs no more:
/// measured at 50 Mbit/s, shift 0 takes as long as shift 2 and handles a packet in 7 µs instead of 26.
pub const ICOUNT_SHIFT: u32 = 0;

/// The guest's clock starts here, on every run. Which moment it is does not matter.
pub const CLOCK_BASE: &str = "2020-01-01T00:00:00";

/// What the kernel is told, besides where the mailbox is. Most of it saves work that a guest of a few virtual seconds
/// has no use for; none of it touches TCP.
const COMMAND_LINE: &[&str] = &[
    "console=ttyS0 quiet",
    // A guest that goes wrong ends, and says why on the console.
    "panic=-1 oops=panic reboot=t",
    // Nothing may be random but what the seed decides.
    "nokaslr random.trust_cpu=0 random.trust_bootloader=0",
    // The thread that stands for the network must never wait for the kernel's own work: collapsing huge pages held it
    // up for 6 ms, and that would be measured as queueing delay.
    "preempt=full transparent_hugepage=never",
    // The virtual CPU's time-stamp counter runs at exactly 1 GHz, so the kernel need not calibrate it.
    "tsc=reliable tsc_early_khz=1000000",
    // Cheaper timers: the guest goes idle after every packet, and stopping the tick costs more than ticking.
    // Every access to a port leaves the translated code, so none is made for the sake of a delay.
    "nohz=off cpuidle.off=1 io_delay=none",
    // No work for security, self-tests and watchdogs at boot and on every packet.
    "mitigations=off init_on_alloc=0 hardened_usercopy=off lsm= audit=0 nowatchdog cryptomgr.notests",
    "initcall_blacklist=load_system_certificate_list,jent_mod_init,init_kprobe_trace,bpf_dummy_struct_ops_init,init_blk_tracer",
];

/// Every flag that shapes what the guest sees, apart from files and the seed. No single one contains a blank.
pub fn machine_arguments(nic: Option<Nic>) -> Vec<String> {
    // Network cards sit on a bus whose place only ACPI's tables tell.
    let buses = if nic.is_some() { "acpi=on,pcie=on" } else { "acpi=off" };
    let groups = [
        // The smallest machine, which boots in half the time of a PC: no PCI, no ACPI, hardly any firmware.
        format!("-M microvm,{buses},x-option-roms=off,memory-backend=ram -no-user-config -nodefaults"),
        "-display none -no-reboot -smp 1".into(),
        format!("-m {MEMORY_MIB}M"),
        // Virtual time: instructions are the clock, and idle time is skipped. "Recording" makes the emulator's two
        // threads exclude each other. Without it the main thread may move the clock on while the guest's last
        // instructions are not counted yet: on a busy host every few cells were not the same again.
        "-accel tcg,thread=single".into(),
        format!("-icount shift={ICOUNT_SHIFT},sleep=off,rr=record,rrfile=/dev/null"),
        format!("-rtc clock=vm,base={CLOCK_BASE}"),
        // No hardware randomness. Without cmpxchg16b, because it corrupts the flags now and then in QEMU 7.2. Without
        // the "fast" string moves the kernel copies eight bytes a step; with them the emulator goes byte by byte.
        "-cpu max,-rdrand,-rdseed,-cx16,-erms,-fsrm".into(),
    ];
    let cards = nic.map(|nic| [1, 2].map(|number| card(nic, number)));
    groups
        .iter()
        .chain(cards.iter().flatten())
        .flat_map(|group| group.split(' '))
        .map(str::to_string)
        .collect()
}

/// One of two network cards that the emulator's hub joins: what one sends the other receives at once.
fn card(nic: Nic, number: u8) -> String {
    let device = match nic {
        // The card sends on a timer of the guest's clock; the usual way, at the emulator's leisure, is not the same on every run.
        Nic::Virtio => "virtio-net-pci,tx=timer,x-txtimer=2000",
        Nic::E1000 => "e1000",
    };
    format!(
        "-netdev hubport,id=n{number},hubid=0 -device {device},netdev=n{number},mac=02:00:00:00:00:0{number},romfile="
    )
}

/// The kernel's command line: its settings, the window of memory to leave alone, and what its first process is told.
pub fn command_line(is_tickless: bool) -> String {
    // The last word on a setting counts.
    let tick = if is_tickless { "nohz=on " } else { "" };
    let mailbox = format!("memmap={}M${}M", mailbox::BYTES >> 20, mailbox::ADDRESS >> 20);
    format!("{} {tick}{mailbox} -- {}", COMMAND_LINE.join(" "), job::ARGUMENT)
}
