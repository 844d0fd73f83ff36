// Package bootargs decides what must change in the files of a boot loader so that the next kernels have some arguments,
// and how to undo the change. It is pure: it reads a tree of files and returns texts.
//
// Arguments are a set of tokens. A token anywhere on the line is present, and another order is no change. A token of
// the same name with another value is replaced, unless the kernel accepts the name more than once (console=). All other
// bytes of the line, and of the file, stay the same. Tokens behind "--" belong to init.
//
//	grub          Debian's: a file of our own in /etc/default/grub.d, which adds to
//	              GRUB_CMDLINE_LINUX_DEFAULT only: recovery entries stay clean
//	bls           RHEL's and Fedora's grub, which reads no grub.d: the options of each
//	              entry, and /etc/kernel/cmdline for kernels to come
//	systemd-boot  the options of each entry, and /etc/kernel/cmdline
//	extlinux      the append line of each label
//
// Entries for rescue do not change. Some cases are ErrByHand, with the remedy in the text. A unified kernel image
// contains its arguments. ostree and an unknown loader write their files themselves. With two loaders it is not known
// which of them boots.
//
// Undo restores all bytes if nobody has changed the file since. Otherwise it removes the tokens that were added, and
// restores the replaced tokens unless the file has another token of their name.
package bootargs
