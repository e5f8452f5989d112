//! Named paths.

/// A named path.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
    pub about: &'static str,
}

/// Every preset; a new one is one row here.
pub const PRESETS: &[Preset] = &[
    Preset { name: "clean", text: "50mbit 40ms queue=1bdp", about: "a clean path" },
    Preset {
        name: "drop",
        text: "50mbit 40ms queue=2bdp @4s 15mbit @9s 50mbit",
        about: "the rate drops to 30 % and recovers",
    },
    Preset {
        name: "lossy",
        text: "50mbit 150ms queue=1bdp loss=1%",
        about: "long round trip with random loss",
    },
    Preset {
        name: "policer",
        text: "100mbit 40ms queue=1bdp policer=20mbit/50ms",
        about: "a token bucket that drops what exceeds 20 Mbit/s",
    },
];
