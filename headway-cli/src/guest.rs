//! Being the first process of the lab's guest.
