//! The programs of the manual are the examples, which are compiled.

use std::fs;
use std::path::Path;

#[test]
fn the_manual_s_programs_are_the_examples() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| fs::read_to_string(here.join(file)).unwrap();
    for (page, example) in [("tutorial/quinn", "quic_quinn"), ("how-to/add-a-controller", "own_controller")] {
        let program = format!("\n```rust,ignore\n{}```\n", read(&format!("examples/{example}.rs")));
        let is_shown = read(&format!("../docs/{page}.md")).contains(&program);
        assert!(is_shown, "docs/{page}.md does not have the text of examples/{example}.rs");
    }
}
