//! Whether a page runs something that is not ours. It is read as a browser reads it: tags with their attributes, and no
//! tags within scripts, style sheets and titles.

/// What a page of ours never has: each could fetch or run something.
const STRANGE: [&str; 8] = ["iframe", "object", "embed", "link", "base", "form", "applet", "frame"];

/// Fails unless the page has so many scripts and nothing else that runs.
pub fn check(html: &str, scripts: usize) {
    let mut found = 0;
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        if name.is_empty() {
            continue;
        }
        rest = attributes(&name, rest);
        assert!(!STRANGE.contains(&name.as_str()), "the page has an element <{name}>");
        found += usize::from(name == "script");
        if ["script", "style", "title", "textarea"].contains(&name.as_str()) {
            rest = after(&rest.to_ascii_lowercase(), &format!("</{name}")).map_or("", |at| &rest[at..]);
        }
    }
    assert_eq!(found, scripts, "script elements");
}

/// Reads a tag's attributes, and returns what follows the tag.
fn attributes<'a>(tag: &str, mut rest: &'a str) -> &'a str {
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let end = rest.find(|c: char| c.is_ascii_whitespace() || "=/>".contains(c)).unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        if let Some(value) = rest.strip_prefix('=') {
            let quote = value.chars().next().filter(|c| "\"'".contains(*c));
            let value = quote.map_or(value, |_| &value[1..]);
            let is_end = |c: char| quote.map_or(c.is_ascii_whitespace() || c == '>', |q| c == q);
            let end = value.find(is_end).unwrap_or(value.len());
            assert!(name != "href" || value.starts_with('#'), "<{tag}> has a link to {}", &value[..end]);
            rest = &value[end..];
            rest = quote.map_or(rest, |_| rest.get(1..).unwrap_or_default());
        }
        assert!(!name.starts_with("on") && name != "src" && name != "srcdoc", "<{tag}> has {name}");
        if name.is_empty() {
            return rest.strip_prefix('>').unwrap_or(rest);
        }
    }
}

fn after(text: &str, what: &str) -> Option<usize> {
    text.find(what).map(|at| at + what.len())
}
