// Package boot is the driver of the files by which a machine boots, as package bootargs plans them. Its writes outlive
// a boot, and so do the originals in the journal.
//
//	boot   the object is a file, the knob its form (bootargs.Form, or one of the two below)
//	       and the boot arguments.
//	menu   GRUB's own configuration, which update-grub makes from other files.
//	next   the entry that only the next boot uses: next_entry in GRUB's environment block,
//	       or the EFI variable LoaderEntryOneShot.
//
// The value of a file is its text, quoted, so that it fits in one line. Two more values mean a missing file: with its
// directory present, and without its directory. The value of GRUB's configuration is the arguments that all of its
// entries have, since only update-grub knows the remaining text. The value of the next entry is its id.
//
// A new file replaces the old one in one step, so that one of them exists even after a power loss. What the boot loader
// reads is also written to its place on the disk, since a boot loader does not read the log of a file system. Mode,
// owner and extended attributes stay. update-grub writes its file beside the old one. The new file replaces the old one
// only if it has all arguments, an entry for each kernel that still exists, and an entry for the running kernel.
//
// A file that Berth did not create may change after Berth's write. While it still has one of Berth's arguments, it
// counts as Berth's and is restored argument by argument. If it has none of them, nothing is left to restore. A file
// that Berth created and another program changed belongs to that program.
package boot
