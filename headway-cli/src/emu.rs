//! Namespaces, TUN devices and the loop around two Links.
