//! Compiles `lab/clock.c` into `OUT_DIR/clock.so`, which `src/lab/kernels.rs` embeds.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    // `scripts/fuzz` sets it.
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=lab");
    compile(Path::new("lab/clock.c"), &out.join("clock.so"));
}

const SHARED_OBJECT: &[&str] = &["-O2", "-Wall", "-fPIC", "-ftls-model=initial-exec", "-nostdlib", "-shared"];

fn compile(source: &Path, object: &Path) {
    let result = Command::new("clang").args(SHARED_OBJECT).arg(source).arg("-o").arg(object).output();
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
