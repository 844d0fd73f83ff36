package topology_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestCorruptionNeverMakesACoreWrong deletes and corrupts files of every machine. Discover must either refuse the
// remaining files or return a topology that satisfies its invariants.
func TestCorruptionNeverMakesACoreWrong(t *testing.T) {
	machines := sources(catalog())
	rapid.Check(t, func(t *rapid.T) {
		files := maps.Clone(rapid.SampledFrom(machines).Draw(t, "machine").files)
		names := slices.Sorted(maps.Keys(files))
		for range rapid.IntRange(1, 40).Draw(t, "faults") {
			corrupt(t, files, rapid.SampledFrom(names).Draw(t, "file"))
		}
		found, err := topology.Discover(tree(t, files))
		if err != nil {
			if !errors.Is(err, topology.ErrNoMachine) && !errors.As(err, new(*cpuset.RangeError)) {
				t.Fatalf("unclear error: %v", err)
			}
			return
		}
		checkAll(t, found)
	})
}

// TestOneBrokenSiblingList checks a stronger property of sound machines: a single lost or corrupt list of siblings
// changes no core.
func TestOneBrokenSiblingList(t *testing.T) {
	machines := sources(slices.DeleteFunc(catalog(), func(g generated) bool { return !g.sound }))
	rapid.Check(t, func(t *rapid.T) {
		files := maps.Clone(rapid.SampledFrom(machines).Draw(t, "machine").files)
		want := discover(t, tree(t, files))
		name := rapid.SampledFrom(slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
			return !strings.Contains(name, "thread_siblings")
		})).Draw(t, "file")
		corrupt(t, files, name)
		got := discover(t, tree(t, files))
		if got.Hash() != want.Hash() {
			t.Fatalf("%s = %q: cores %v, want %v", name, files[name], got.Cores, want.Cores)
		}
	})
}

// TestSiblingsThatDisagreeAreNoCore gives some CPUs random lists of siblings and ids. CPUs form a core only if their
// lists are equal, or if their ids are equal and of every two CPUs one lists the other. A disagreement must cause a
// warning.
func TestSiblingsThatDisagreeAreNoCore(t *testing.T) {
	const cpus = 12
	rapid.Check(t, func(t *rapid.T) {
		files := symmetric{1, 1, 1, cpus / 2, 2, rapid.Bool().Draw(t, "adjacent")}.machine().files()
		for range rapid.IntRange(1, cpus).Draw(t, "faults") {
			cpu := rapid.IntRange(0, cpus-1).Draw(t, "cpu")
			list := rapid.SliceOfN(rapid.IntRange(0, cpus-1), 0, 4).Draw(t, "siblings")
			siblings, err := cpuset.Of(append(list, cpu)...)
			if err != nil {
				t.Fatal(err)
			}
			files[fmt.Sprintf(cpuPath+"cpu%d/topology/thread_siblings_list", cpu)] = siblings.String() + "\n"
			files[fmt.Sprintf(cpuPath+"cpu%d/topology/core_id", cpu)] = fmt.Sprintln(rapid.IntRange(-1, 3).Draw(t, "core id"))
		}
		lists, ids := map[int]cpuset.Set{}, map[int]string{}
		sound := true
		for cpu := range cpus {
			dir := fmt.Sprintf(cpuPath+"cpu%d/topology/", cpu)
			set, err := cpuset.Parse(strings.TrimSpace(files[dir+"thread_siblings_list"]))
			if err != nil {
				t.Fatal(err)
			}
			lists[cpu], ids[cpu] = set, files[dir+"core_id"]
		}
		for cpu, list := range lists {
			for other := range list.All() {
				sound = sound && lists[other] == list && lists[cpu] == list
			}
		}
		found := discover(t, tree(t, files))
		checkInvariants(t, found)
		if !sound && len(found.Warnings) == 0 {
			t.Errorf("no warning about lists %v", lists)
		}
		for _, core := range found.Cores {
			for a := range core.CPUs.All() {
				for b := range core.CPUs.All() {
					listed := lists[a].Contains(b) || lists[b].Contains(a)
					if !listed || lists[a] != lists[b] && ids[a] != ids[b] {
						t.Errorf("CPUs %d and %d are in core %s, their lists are %s and %s", a, b, core.CPUs, lists[a], lists[b])
					}
				}
			}
		}
	})
}

// sourceFiles are the files of one machine, made once and reused for many draws.
type sourceFiles struct {
	name  string
	files map[string]string
}

func (s sourceFiles) String() string { return s.name }

func sources(machines []generated) []sourceFiles {
	var all []sourceFiles
	for _, g := range machines {
		files := g.machine.files()
		if g.files != nil {
			g.files(files)
		}
		all = append(all, sourceFiles{g.name, files})
	}
	return all
}

func corrupt(t *rapid.T, files map[string]string, name string) {
	garbage := []string{
		"", "\n", "0\n", "-1\n", "0-1023\n", "0-4095\n", "7\n", "ffffffff\n", "ffffffff,ffffffff\n", "0-3:1/2\n",
		"x\n", "\x00\x00", "0,,1\n", "99999999999999999999\n", "10 20\n", "MemTotal: 99999999999999999 kB\n", "Unified\n", "(null)\n",
	}
	switch rapid.IntRange(0, 2).Draw(t, "fault") {
	case 0:
		delete(files, name)
	case 1:
		files[name] = rapid.SampledFrom(garbage).Draw(t, "garbage")
	case 2:
		files[name] = files[rapid.SampledFrom(slices.Sorted(maps.Keys(files))).Draw(t, "copy of")]
	}
}

func tree(t *rapid.T, files map[string]string) fs.FS {
	archive := &txtar.Archive{}
	for name, text := range files {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
	}
	r, err := topology.ParseRecording(txtar.Format(archive))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkAll checks the invariants and the JSON round trip, for rapid.
func checkAll(t *rapid.T, found *topology.Topology) {
	checkInvariants(t, found)
	data, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	again, err := topology.Decode(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if d := diff(found, again); d != "" {
		t.Fatal(d)
	}
}

func TestCaptureGivesTheSameMachine(t *testing.T) {
	for _, name := range machineFiles(t) {
		original := open(t, name)
		captured, err := topology.Capture(original)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := parse(t, captured.Format())
		if d := diff(discover(t, original), discover(t, again)); d != "" {
			t.Errorf("%s: captured (-before +after):\n%s", name, d)
		}
		if !bytes.Equal(again.Format(), captured.Format()) || captured.Len() != again.Len() {
			t.Errorf("%s: formatting is not stable", name)
		}
		if bytes.Contains(captured.Format(), []byte("MemFree")) {
			t.Errorf("%s: the capture holds more than the size of the memory", name)
		}
	}
}

// TestCaptureHoldsOnlyWhatIsRead checks that a capture contains no file that discovery does not read, because it may
// contain secrets.
func TestCaptureHoldsOnlyWhatIsRead(t *testing.T) {
	files := symmetric{1, 1, 1, 2, 2, false}.machine().files()
	files["sys/class/dmi/id/product_serial"] = "secret\n"
	files["proc/sys/kernel/hostname"] = "secret\n"
	captured, err := topology.Capture(parse(t, generated{files: func(f map[string]string) { maps.Copy(f, files) }}.text()))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(captured.Format(), []byte("secret")) {
		t.Error("the capture holds a file that discovery does not read")
	}
}

func TestParseRecordingRefuses(t *testing.T) {
	for _, text := range []string{
		"", "just text\n", "-- ../etc/passwd --\n", "-- /sys/x --\n", "-- a --\n-- a --\n", "-- a --\n-- a/b --\n", "-- . --\n", "-- a//b --\n", "-- --\n", "--  --\n", "-- x\n",
	} {
		if _, err := topology.ParseRecording([]byte(text)); !errors.Is(err, topology.ErrRecording) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseRecording(f *testing.F) {
	f.Add([]byte("-- sys/devices/system/cpu/online --\n0-3\n-- sys/devices/system/cpu/cpu0/topology/thread_siblings --\n3\n"))
	f.Add([]byte("-- a --\n-- a/b --\n"))
	f.Add([]byte("-- --\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := topology.ParseRecording(text)
		if err != nil {
			return
		}
		if found, err := topology.Discover(r); err == nil {
			checkInvariants(t, found)
		}
	})
}

// TestDecodeNamesKinds checks that an error about a value of the wrong kind names the field rather than Go types.
func TestDecodeNamesKinds(t *testing.T) {
	for text, want := range map[string]string{
		`"root:x:0"`:             "allowed: an object with the field cores, not a value of kind string",
		`{"cores":[{"cpus":0}]}`: `cores.cpus: a value of kind number: allowed: a CPU list in quotes, such as "0-3"`,
		`{"cores":{}}`:           "cores: a value of kind object: allowed: a list",
		`{"cores":[{"id":"0"}]}`: "cores.id: a value of kind string: allowed: a whole number",
	} {
		_, err := topology.Decode([]byte(text))
		if !errors.Is(err, topology.ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"cores":[{"cpus":"0-1"},{"cpus":"2-3","kind":"efficiency"}]}`))
	f.Add([]byte(`{"online":"0","cores":[{"id":0,"cpus":"0","socket":null,"numa":0,"l3":-1}],"numaNodes":[{"id":0,"cpus":"0","memoryBytes":1,"distances":[10]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := topology.Decode(data)
		if err != nil {
			if !errors.Is(err, topology.ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		encoded, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := topology.Decode(encoded); err != nil || diff(found, again) != "" {
			t.Fatalf("%s: %v", encoded, err)
		}
	})
}

func TestRecordingIsAFileSystem(t *testing.T) {
	r := open(t, filepath.Join(machinesDir, "memory-only-node.txtar"))
	if err := fstest.TestFS(r, cpuPath+"online", nodePath+"node2/meminfo"); err != nil {
		t.Fatal(err)
	}
}
