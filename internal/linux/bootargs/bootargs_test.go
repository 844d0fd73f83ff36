package bootargs_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/bootargs"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
	"github.com/berth-project/berth/test/loader"
)

var update = flag.Bool("update", false, "write the golden files")

// wanted returns the tokens of all trees.
func wanted() []string { return []string{"nohz_full=1-3", "rcu_nocbs=1-3", "skew_tick=1"} }

// vendor ends the names of the variables that a boot loader and the system share.
const vendor = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// loaderInfo is the variable with the name of the loader.
const loaderInfo = "sys/firmware/efi/efivars/LoaderInfo" + vendor

// host returns a recorded machine.
func host(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	tree := fstest.MapFS{}
	for file, text := range loader.Files(t, name) {
		tree[file] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// carried returns the tree after a plan.
func carried(tree fstest.MapFS, p bootargs.Plan) fstest.MapFS {
	next := maps.Clone(tree)
	for _, f := range p.Files {
		next[f.Name] = &fstest.MapFile{Data: []byte(f.After)}
	}
	return next
}

// describe formats a plan for the golden files.
func describe(p bootargs.Plan, err error) string {
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "loader: %s\ntrial: %s%s\nregenerate: %s\n", p.Loader, p.Trial.Way, p.Trial.Why, p.Regenerate)
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if p.Trial.Way != "" {
		fmt.Fprintf(&b, "\nfor one boot of %s, named in %s: %s\n%s", p.Trial.Kernel, p.Trial.Mark, p.Trial.Entry.Name, p.Trial.Entry.After)
	}
	for _, f := range p.Files {
		fmt.Fprintf(&b, "\n%s missing %v\n", f.Name, f.Missing)
		for _, list := range slices.Sorted(maps.Keys(f.Changes)) {
			fmt.Fprintf(&b, "%q: added %q, removed %q\n", list, f.Changes[list].Added, f.Changes[list].Removed)
		}
		for _, l := range f.Lines() {
			fmt.Fprintf(&b, "%s\n- %s\n+ %s\n", l.File, l.Now, l.Want)
		}
	}
	return b.String()
}

// TestPlans compares the plan of each machine with its golden file. A second plan after an applied plan must change
// nothing, and the undo must restore every byte.
func TestPlans(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) < 9 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		machine := strings.TrimSuffix(filepath.Base(name), ".txtar")
		t.Run(machine, func(t *testing.T) {
			tree := host(t, machine)
			p, err := bootargs.Make(tree, wanted())
			golden := strings.TrimSuffix(name, ".txtar") + ".golden"
			got := describe(p, err)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if diff := cmp.Diff(string(want), got); diff != "" || readErr != nil {
				t.Errorf("-update writes %s (-want +got), %v:\n%s", golden, readErr, diff)
			}
			if err != nil && !errors.Is(err, bootargs.ErrByHand) {
				t.Error(err)
			}
			again, _ := bootargs.Make(carried(tree, p), wanted())
			for _, f := range again.Files {
				t.Errorf("%s changes again: %s", f.Name, f.After)
			}
			files := p.Files
			if p.Trial.Way != "" {
				files = append(files, p.Trial.Entry)
			}
			for _, f := range files {
				if text, there := f.Undo(f.After); text != f.Before || there == f.Missing {
					t.Errorf("%s is taken back to %v %q, want %q", f.Name, there, text, f.Before)
				}
			}
		})
	}
}

// TestAnotherOrderIsNoChange checks that the order of the tokens does not matter.
func TestAnotherOrderIsNoChange(t *testing.T) {
	for _, name := range []string{"rhel-bls", "debian-grub", "extlinux"} {
		tree := host(t, name)
		p, err := bootargs.Make(tree, wanted())
		if err != nil {
			t.Fatal(err)
		}
		other := wanted()
		slices.Reverse(other)
		if again, err := bootargs.Make(carried(tree, p), other); err != nil || len(again.Files) > 0 {
			t.Errorf("%s: %+v, %v", name, again.Files, err)
		}
	}
}

// TestUndoByToken checks that the undo preserves changes that other programs made after the plan.
func TestUndoByToken(t *testing.T) {
	const entry = "boot/loader/entries/4a6b-5.14.0-362.el9.x86_64.conf"
	p, err := bootargs.Make(host(t, "rhel-bls"), wanted())
	if err != nil {
		t.Fatal(err)
	}
	f := p.Files[slices.IndexFunc(p.Files, func(f bootargs.File) bool { return f.Name == entry })]
	edits := map[string]func(string) string{
		"a token that another program added stays":     func(s string) string { return strings.Replace(s, " ro ", " ro audit=0 ", 1) },
		"a token that another program removed is gone": func(s string) string { return strings.Replace(s, " rcu_nocbs=1-3", "", 1) },
		"a value that another program chose stays":     func(s string) string { return strings.Replace(s, "nohz_full=1-3", "nohz_full=7", 1) },
	}
	want := map[string]string{
		"a token that another program added stays":     "options root=/dev/mapper/rhel-root ro audit=0 crashkernel=1G-4G:192M rd.lvm.lv=rhel/root $tuned_params nohz_full=2\n",
		"a token that another program removed is gone": "options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M rd.lvm.lv=rhel/root $tuned_params nohz_full=2\n",
		"a value that another program chose stays":     "options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M rd.lvm.lv=rhel/root $tuned_params nohz_full=7\n",
	}
	for name, edit := range edits {
		now := edit(f.After)
		if now == f.After {
			t.Fatalf("%s: nothing to edit in %s", name, f.After)
		}
		text, there := f.Undo(now)
		if !there || !strings.Contains(text, want[name]) {
			t.Errorf("%s: %s", name, text)
		}
	}
	own := bootargs.File{Form: bootargs.FormOwn, Missing: true, After: "a"}
	if text, there := own.Undo("b"); text != "b" || !there {
		t.Errorf("a file of our own that others changed: %q, %v", text, there)
	}
}

// TestGRUBsLastLineCounts checks that a file of the administrator may discard an earlier assignment, as files of
// machine images do.
func TestGRUBsLastLineCounts(t *testing.T) {
	tree := host(t, "debian-grub")
	delete(tree, "etc/default/grub.d/10-console.cfg")
	tree["etc/default/grub"] = &fstest.MapFile{Data: []byte("GRUB_CMDLINE_LINUX_DEFAULT='skew_tick=1'\nGRUB_CMDLINE_LINUX=nohz_full=1-3\nGRUB_CMDLINE_LINUX+=' rcu_nocbs=1-3' # all\n")}
	if p, err := bootargs.Make(tree, wanted()); err != nil || len(p.Files) > 0 || p.Regenerate != "" {
		t.Errorf("all tokens stand: %+v, %v", p, err)
	}
	tree["etc/default/grub.d/50-image.cfg"] = &fstest.MapFile{Data: []byte("GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n")}
	p, err := bootargs.Make(tree, wanted())
	if err != nil || len(p.Files) != 1 || !slices.Equal(p.Files[0].Changes[""].Added, []string{"skew_tick=1"}) {
		t.Errorf("one was put away: %+v, %v", p, err)
	}
}

// TestBadTokens checks that tokens which a loader's script would misread are refused.
func TestBadTokens(t *testing.T) {
	for _, bad := range [][]string{{""}, {"a b"}, {"a=$b"}, {`a="b"`}, {"a;b"}, {"=a"}, {"--"}, {"a\n"}, {"a=1", "a=2"}, {"a-b=1", "a_b=1"}, {"ä"}} {
		if _, err := bootargs.Make(fstest.MapFS{}, bad); !errors.Is(err, bootargs.ErrToken) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := bootargs.Check([]string{"console=tty0", "console=ttyS0,115200n8", "isolcpus=managed_irq,domain,1-3"}); err != nil {
		t.Error(err)
	}
}

// denied is a tree with an unreadable directory.
type denied struct{ fs.FS }

func (d denied) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "boot/loader") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

// TestWhatCannotBeReadIsNoLoader checks that without the right to read, nothing is claimed about the machine.
func TestWhatCannotBeReadIsNoLoader(t *testing.T) {
	tree := denied{host(t, "rhel-bls")}
	if _, err := bootargs.Make(tree, wanted()); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// TestEntriesKeepTheirTokens checks that every token occurs once after a change of any line. After the undo by token,
// exactly the previous tokens must be there.
func TestEntriesKeepTheirTokens(t *testing.T) {
	token := rapid.SampledFrom([]string{"ro", "quiet", "nohz_full=1-3", "nohz-full=2", "nohz_full=4", "console=tty0", "console=ttyS0", `x="a b"`, "$v", "-x"})
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOf(token).Draw(t, "tokens")
		tree := fstest.MapFS{
			"boot/grub2/grub.cfg":         {Data: []byte("blscfg")},
			"boot/loader/entries/a.conf":  {Data: []byte("title a\noptions " + strings.Join(before, " ") + "\n")},
			"boot/loader/entries/zz.conf": {Data: []byte("title b\noptions " + strings.Join(before, "  ") + " -- init\nlinux x\n")},
		}
		want := rapid.SampledFrom([][]string{{"nohz_full=1-3"}, {"console=tty0", "console=hvc0"}, {"ro", "rw"}}).Draw(t, "want")
		p, err := bootargs.Make(tree, want)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Files {
			line := strings.TrimPrefix(strings.Split(f.After, "\n")[1], "options ")
			for _, w := range want {
				if !slices.Contains(bootargs.Tokens(line), w) {
					t.Errorf("%q lacks %s", line, w)
				}
			}
			now := f.After + "# another program\n"
			text, _ := f.Undo(now)
			back := bootargs.Tokens(strings.TrimPrefix(strings.Split(text, "\n")[1], "options"))
			for _, b := range before {
				if !slices.Contains(back, b) && !(strings.HasPrefix(b, "nohz") && slices.ContainsFunc(back, func(s string) bool { return strings.HasPrefix(s, "nohz") })) {
					t.Errorf("%q lost %s: %q", f.Before, b, back)
				}
			}
			for _, b := range back {
				if !slices.Contains(before, b) {
					t.Errorf("%q has got %s: %q", f.Before, b, back)
				}
			}
		}
	})
}

func TestEnv(t *testing.T) {
	block := []byte(loader.Block("# GRUB Environment Block\nsaved_entry=0\n"))
	e, err := bootargs.ReadEnv(block)
	if err != nil {
		t.Fatal(err)
	}
	with, err := e.With("next_entry", "berth-trial").Block()
	if err != nil || len(with) != 1024 || !strings.HasPrefix(string(with), "# GRUB Environment Block\nsaved_entry=0\nnext_entry=berth-trial\n#") {
		t.Errorf("%q, %v", with, err)
	}
	back, err := e.With("next_entry", "x").With("next_entry", "").Block()
	if err != nil || string(back) != string(block) {
		t.Errorf("%q, %v", back, err)
	}
	if v, ok := e.Get("saved_entry"); v != "0" || !ok {
		t.Errorf("%q, %v", v, ok)
	}
	if _, err := e.With("a", strings.Repeat("x", 1024)).Block(); !errors.Is(err, bootargs.ErrEnv) {
		t.Error(err)
	}
	for _, bad := range []string{"", "# GRUB Environment Block\n", string(block) + "\n", strings.Repeat("#", 1024)} {
		if _, err := bootargs.ReadEnv([]byte(bad)); !errors.Is(err, bootargs.ErrEnv) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzEnv checks that a block is written as it was read.
func FuzzEnv(f *testing.F) {
	f.Add("saved_entry=0\n")
	f.Add("# a comment\n#\nkernelopts=ro quiet \n")
	f.Fuzz(func(t *testing.T, text string) {
		block := "# GRUB Environment Block\n" + text
		if len(block) > 1024 {
			return
		}
		block = loader.Block(block)
		e, err := bootargs.ReadEnv([]byte(block))
		if err != nil {
			return
		}
		if again, err := e.Block(); err != nil || string(again) != block {
			t.Errorf("%q became %q, %v", block, again, err)
		}
	})
}

// FuzzFiles checks that no text of a file breaks a plan. An applied plan must be complete, and its undo must restore
// every byte.
func FuzzFiles(f *testing.F) {
	f.Add("title a\noptions ro quiet\n")
	f.Add("options\r\n")
	f.Add("label l0\nappend ro \"a b\n")
	f.Add("GRUB_CMDLINE_LINUX=\"ro\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, rest := range map[string]fstest.MapFS{
			"boot/loader/entries/a.conf":  {"boot/grub2/grub.cfg": {Data: []byte("blscfg")}},
			"boot/extlinux/extlinux.conf": {},
			"etc/default/grub":            {"boot/grub/grub.cfg": {}, "etc/debian_version": {}},
			"etc/kernel/cmdline":          {"efi/EFI/systemd/systemd-bootx64.efi": {}, "efi/loader/entries/b.conf": {Data: []byte("options a")}},
		} {
			tree := maps.Clone(rest)
			tree[name] = &fstest.MapFile{Data: []byte(text)}
			p, err := bootargs.Make(tree, wanted())
			if errors.Is(err, bootargs.ErrByHand) && strings.Contains(text, `"`) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			again, err := bootargs.Make(carried(tree, p), wanted())
			if err != nil || len(again.Files) > 0 {
				t.Errorf("%s %q: again %+v, %v", name, text, again.Files, err)
			}
			for _, f := range p.Files {
				if back, _ := f.Undo(f.After); back != f.Before {
					t.Errorf("%s: %q, want %q", f.Name, back, f.Before)
				}
				f.Lines()
			}
		}
	})
}

// TestWhyNoTrial checks that the reason why a loader cannot boot an entry once is known before anything is written.
func TestWhyNoTrial(t *testing.T) {
	full := "# GRUB Environment Block\nx="
	full += strings.Repeat("y", 1024-len(full)-10) + "\n"
	const mounts = "proc/self/mountinfo"
	for name, test := range map[string]struct {
		tree, file, text string
		want             string
	}{
		"no block":                     {"debian-grub", "boot/grub/grubenv", "", "there is no /boot/grub/grubenv"},
		"another block":                {"debian-grub", "boot/grub/grubenv", "saved_entry=0\n", "no environment block of grub"},
		"a full block":                 {"debian-grub", "boot/grub/grubenv", loader.Block(full), "no environment block of grub"},
		"RAID":                         {"debian-grub", "proc/self/mountinfo", "22 1 9:0 / / rw - ext4 /dev/md0 rw\n", "/dev/md0 is a RAID"},
		"unknown mount":                {"debian-grub", "proc/self/mountinfo", "", "its file system is not known"},
		"a menu by hand":               {"debian-grub", "boot/grub/grub.cfg", "set default=0\n", "does not look at next_entry"},
		"no custom.cfg":                {"debian-grub", "boot/grub/grub.cfg", "save_env next_entry\n", "does not read custom.cfg"},
		"another kernel":               {"debian-grub", "proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-5.10 ro\n", "not known which entry"},
		"no cmdline":                   {"debian-grub", "proc/cmdline", "", "not known which entry"},
		"two entries of one kernel":    {"rhel-bls", "boot/loader/entries/b.conf", "linux /vmlinuz-5.14.0-362.el9.x86_64\n", "not known which entry"},
		"entries without next_entry":   {"rhel-bls", "boot/grub2/grub.cfg", "blscfg\n", "does not look at next_entry"},
		"entries of which all boots":   {"rhel-bls", "boot/grub2/grub.cfg", "set default=\"${next_entry}\"\n# save_env next_entry\nsave_env saved_entry # next_entry\nblscfg\n", "each boot would be the trial"},
		"the BIOS":                     {"systemd-boot", mounts, "22 1 259:2 / / rw - btrfs /dev/nvme0n1p2 rw\n", "not mounted"},
		"no mounts known":              {"systemd-boot", mounts, "", "not mounted"},
		"no runtime services":          {"systemd-boot", mounts, "24 1 0:21 / /sys rw - sysfs sysfs rw\n", "not mounted"},
		"firmware that stores nothing": {"systemd-boot", mounts, "27 1 0:24 / /sys/firmware/efi/efivars rw,nosuid - efivarfs efivarfs ro\n", "read-only"},
		"variables mounted read-only":  {"systemd-boot", mounts, "27 1 0:24 / /sys/firmware/efi/efivars ro,nosuid - efivarfs efivarfs rw\n", "read-only"},
		"no loader known":              {"systemd-boot", loaderInfo, "", "not booted by systemd-boot"},
		"another loader":               {"systemd-boot", loaderInfo, string(bootargs.NewVariable("GRUB 2.12")), `is "GRUB 2.12"`},
		"systemd-boot names no entry":  {"systemd-boot", "efi/loader/entries/fallback.conf", "linux /vmlinuz-linux-6.7.4-arch1-1\n", "not known which entry"},
	} {
		tree := host(t, test.tree)
		delete(tree, test.file)
		if test.text != "" {
			tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
		}
		if p, err := bootargs.Make(tree, wanted()); err != nil || p.Trial.Way != "" || !strings.Contains(p.Trial.Why, test.want) {
			t.Errorf("%s: %+v, %v", name, p.Trial, err)
		}
	}
}

// TestWhereGRUBWrites checks that the topmost of several mounts at a directory is used, and that the kernel's data
// determines the type of its device, not its name.
func TestWhereGRUBWrites(t *testing.T) {
	const root = "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"
	for name, test := range map[string]struct{ mounts, sys, want string }{
		"plain":               {root, "", ""},
		"another directory":   {root + "30 22 0:40 / /boot/gru rw - tmpfs tmpfs rw\n31 22 0:41 / /boot2 rw - tmpfs tmpfs rw\n", "", ""},
		"below an automount":  {root + "30 22 0:40 / /boot rw - autofs systemd-1 rw\n31 30 259:2 / /boot rw - vfat /dev/nvme0n1p2 rw\n", "", ""},
		"an automount":        {root + "30 22 0:40 / /boot rw - autofs systemd-1 rw\n", "", "it is on autofs"},
		"btrfs on ext4":       {root + "30 22 259:2 / /boot rw - ext4 /dev/nvme0n1p2 rw\n31 30 0:41 / /boot rw - btrfs /dev/nvme0n1p3 rw\n", "", "it is on btrfs"},
		"a later file system": {"22 1 0:30 / / rw - bcachefs /dev/sda1 rw\n", "", "it is on bcachefs"},
		"a volume's own name": {"22 1 253:3 / / rw - xfs /dev/vg0/boot rw\n", "253:3/dm/name", "/dev/vg0/boot is a logical or encrypted volume"},
		"a RAID's own name":   {"22 1 9:7 / / rw - xfs /dev/disk/by-label/boot rw\n", "9:7/md/level", "/dev/disk/by-label/boot is a RAID"},
		"another volume":      {root, "253:3/dm/name", ""},
	} {
		tree := host(t, "debian-grub")
		tree["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte(test.mounts)}
		if test.sys != "" {
			tree["sys/dev/block/"+test.sys] = &fstest.MapFile{}
		}
		p, err := bootargs.Make(tree, wanted())
		if err != nil || !strings.HasSuffix(p.Trial.Why, test.want) || (p.Trial.Way == "") != (test.want != "") {
			t.Errorf("%s: %q, %q, %v", name, p.Trial.Way, p.Trial.Why, err)
		}
	}
}

// TestTrialOfTheEntryThatRuns checks that the trial uses the entry that systemd-boot booted, and preserves other
// content of custom.cfg.
func TestTrialOfTheEntryThatRuns(t *testing.T) {
	tree := host(t, "systemd-boot")
	tree["efi/loader/entries/fallback.conf"] = &fstest.MapFile{Data: []byte("linux /vmlinuz-linux-6.7.4-arch1-1\noptions fallback\n")}
	selected := bootargs.NewVariable("FALLBACK.conf")
	tree["sys/firmware/efi/efivars/LoaderEntrySelected"+vendor] = &fstest.MapFile{Data: selected}
	if p, err := bootargs.Make(tree, wanted()); err != nil || !strings.Contains(p.Trial.Entry.After, "options fallback nohz_full=1-3") {
		t.Errorf("%+v, %v", p.Trial, err)
	}
	tree = host(t, "debian-grub")
	const others = "menuentry 'mine' { true\n}"
	tree["boot/grub/custom.cfg"] = &fstest.MapFile{Data: []byte(others)}
	p, err := bootargs.Make(tree, wanted())
	if err != nil || !strings.HasPrefix(p.Trial.Entry.After, others+"\n") {
		t.Fatalf("%+v, %v", p.Trial, err)
	}
	tree["boot/grub/custom.cfg"] = &fstest.MapFile{Data: []byte(p.Trial.Entry.After)}
	again, err := bootargs.Make(tree, wanted())
	if err != nil || again.Trial.Entry.After != p.Trial.Entry.After {
		t.Errorf("again: %q, %v", again.Trial.Entry.After, err)
	}
	if text, there := p.Trial.Entry.Undo(p.Trial.Entry.After + "# more\n"); text != others+"# more\n" || !there {
		t.Errorf("%q, %v", text, there)
	}
}

// TestInForce checks that the kernel's own statement about its CPUs determines an argument's effect, and that the last
// of two arguments applies.
func TestInForce(t *testing.T) {
	for _, test := range []struct {
		cmdline, token, have string
		booted               bool
	}{
		{"ro nohz_full=1-3", "nohz_full=1-3", "nohz_full=2-3", true},
		{"ro nohz_full=2-3", "nohz_full=2-3", "nohz_full=2-3", true},
		{"ro nohz-full=1 nohz_full=2", "nohz_full=1", "nohz_full=2", false},
		{"isolcpus=managed_irq,domain,2", "isolcpus=managed_irq,domain,2", "isolcpus=", true},
		{"isolcpus=managed_irq,2", "isolcpus=managed_irq,2", "isolcpus=managed_irq,2", true},
		{"isolcpus=1-N", "isolcpus=1-N", "isolcpus=1-N", true},
		{"console=tty0 console=ttyS0", "console=tty0", "console=tty0", true},
		{"ro -- skew_tick=1", "skew_tick=1", "", false},
	} {
		tree := fstest.MapFS{
			"proc/cmdline":                     {Data: []byte(test.cmdline + "\n")},
			"sys/devices/system/cpu/nohz_full": {Data: []byte("2-3\n")},
			"sys/devices/system/cpu/isolated":  {Data: []byte("\n")},
		}
		if have, booted := bootargs.InForce(tree, test.token); have != test.have || booted != test.booted {
			t.Errorf("%s of %q: %q, %v", test.token, test.cmdline, have, booted)
		}
	}
}
