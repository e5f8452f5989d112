//! Compiles every `bpf/*.bpf.c` into `OUT_DIR/*.bpf.o`, which `lib.rs` embeds.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=bpf");
    let sources =
        fs::read_dir("bpf").unwrap_or_else(|e| fail(&format!("cannot list headway-kernel/bpf: {e}")));
    for source in sources.flatten().map(|entry| entry.path()) {
        let Some(name) = source.file_name().and_then(|n| n.to_str()) else { continue };
        if let Some(stem) = name.strip_suffix(".bpf.c") {
            compile(&source, &out.join(format!("{stem}.bpf.o")));
        }
    }
}

/// `-mcpu=v3` has 32-bit arithmetic and atomics, and every kernel that lets BPF set the pacing rate takes it. `-g` makes the type
/// information (BTF) without which the kernel loads no such program.
const BPF: &[&str] = &["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wno-unused-function", "-c"];

fn compile(source: &Path, object: &Path) {
    let result = Command::new("clang").args(BPF).arg(source).arg("-o").arg(object).output();
    match result {
        Ok(output) if output.status.success() => warn(&output.stderr),
        Ok(output) => {
            warn(&output.stderr);
            fail(&format!("clang cannot compile {}", source.display()));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => fail("clang is missing: `apt-get install clang`"),
        Err(e) => fail(&format!("cannot run clang: {e}")),
    }
}

fn warn(stderr: &[u8]) {
    for line in String::from_utf8_lossy(stderr).lines() {
        println!("cargo::warning={line}");
    }
}

fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    exit(1);
}
