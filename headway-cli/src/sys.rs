//! Every `unsafe` and every ioctl.
