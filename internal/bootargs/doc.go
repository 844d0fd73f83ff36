// Package bootargs says what has to change in the files of a boot loader so that the next
// kernels have some arguments, and how that is taken back. It is pure: it reads a tree of
// files and returns texts.
//
// Arguments are a set of tokens: a token that stands somewhere on the line is there, another
// order is no change, and a token of the same name with another value gives way, except
// for those that the kernel takes more than once (console=). Everything else on the line,
// and in the file, stays as it is to the byte. Tokens behind "--" are those of init.
//
//	grub          Debian's: a file of our own in /etc/default/grub.d, which adds to
//	              GRUB_CMDLINE_LINUX_DEFAULT only: recovery entries stay clean
//	bls           RHEL's and Fedora's grub, which reads no grub.d: the options of each
//	              entry, and /etc/kernel/cmdline for kernels to come
//	systemd-boot  the options of each entry, and /etc/kernel/cmdline
//	extlinux      the append line of each label
//
// Entries for rescue stay as they are. A unified kernel image has its arguments inside, ostree
// and a loader that is not known write their files themselves, and where two loaders are
// found it is not known which one boots: these are ErrByHand with the tokens.
//
// Undo is by byte while the file is as it was left. Otherwise the tokens that were added go,
// and those that gave way come back unless another of their name stands there.
package bootargs
