//! Compiles every `bpf/*.bpf.c` into `OUT_DIR/*.bpf.o`, which `kernel.rs` embeds, and `lab/clock.c` into
//! `OUT_DIR/clock.so` for `lab.rs`.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=bpf");
    let sources = fs::read_dir("bpf").unwrap_or_else(|e| fail(&format!("cannot list headway-cli/bpf: {e}")));
    for source in sources.flatten().map(|entry| entry.path()) {
        let Some(name) = source.file_name().and_then(|n| n.to_str()) else { continue };
        if let Some(stem) = name.strip_suffix(".bpf.c") {
            compile(&source, &out.join(format!("{stem}.bpf.o")), BPF);
        }
    }
    println!("cargo::rerun-if-changed=lab");
    compile(Path::new("lab/clock.c"), &out.join("clock.so"), SHARED_OBJECT);
}

/// `-mcpu=v3`: 32-bit arithmetic and atomics, in every kernel that lets BPF set the pacing rate.
const BPF: &[&str] = &["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wno-unused-function", "-c"];
const SHARED_OBJECT: &[&str] = &["-O2", "-Wall", "-fPIC", "-ftls-model=initial-exec", "-nostdlib", "-shared"];

fn compile(source: &Path, object: &Path, flags: &[&str]) {
    let result = Command::new("clang").args(flags).arg(source).arg("-o").arg(object).output();
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
