//! BPF controllers: open, fill parameters, load, attach, read the trace.
