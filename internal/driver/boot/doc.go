// Package boot is the driver of the files by which a machine boots: those that package bootargs
// plans. What it writes outlives a boot, and so do the originals in the journal.
//
//	boot   the object is a file, the knob its form (bootargs.Form, or one of the two below)
//	       and the boot arguments
//	menu   GRUB's own configuration, which update-grub makes of other files
//	next   the entry that the next boot takes once: next_entry in GRUB's environment block,
//	       or the variable LoaderEntryOneShot of EFI
//
// The value of a file is its text, quoted, so that it is one line; there are two more for a
// file that is not there, with its directory and without. The value of GRUB's configuration
// are the arguments that all of its entries have, since only the program that makes it knows
// the rest, and that of the next entry is its id.
//
// A file is put in the place of the one before, which is there until then, also after a power
// loss; mode, owner and extended attributes stay. update-grub makes its file beside the old
// one, which stays unless all arguments stand in the new one, and with them an entry of each kernel
// that is still there and of the one that runs.
//
// A file of others that was changed after Berth's write counts as Berth's while one of its
// arguments stands there, and is put back by token. Where none does, nothing is left to put
// back. A file of Berth's own that others changed is theirs.
package boot
