//! The HTML document around a page: its head, the style sheet, and the policy that forbids the page to fetch anything.
//!
//! A page is one file that shows all it has without a network, so that it can be mailed, archived and opened years
//! later. `page` and `compare` fill the body.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = concat!(include_str!("vendor/uPlot.min.css"), include_str!("page.css"));

/// Nothing may be fetched, whatever a later edit lets slip in.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// One whole document.
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) " · Headway" }
                style { (verbatim(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Text that stands in the page as it is: a script, a style sheet, JSON made for the purpose.
pub fn verbatim(text: &str) -> Markup {
    PreEscaped(text.to_string())
}
