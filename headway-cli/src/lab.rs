//! A stock kernel under QEMU in virtual time: initramfs, boot, collecting the raw folder.
