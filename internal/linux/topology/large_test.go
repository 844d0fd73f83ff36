package topology_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/plain"
)

// large returns a machine of 512 CPUs: 8 NUMA nodes in 2 sockets, each with 4 L3 domains of 8 cores with 2 threads.
func large() machine {
	return symmetric{sockets: 2, nodes: 4, l3s: 4, cores: 8, threads: 2}.machine()
}

func TestLargeMachine(t *testing.T) {
	m := large()
	found := discover(t, parse(t, generated{machine: m}.text()))
	checkInvariants(t, found)
	checkTruth(t, m, found)
	if len(found.Cores) != 256 || len(found.L3) != 32 || len(found.Nodes) != 8 {
		t.Errorf("%d cores, %d L3, %d nodes", len(found.Cores), len(found.L3), len(found.Nodes))
	}
}

// counter counts the files that are read through it.
type counter struct {
	fs.FS
	found, missing int
}

func (c *counter) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(c.FS, name)
	if err != nil {
		c.missing++
		return nil, fmt.Errorf("count: %w", err)
	}
	c.found++
	return content, nil
}

// TestLargeMachineReadsFewFiles limits the number of files that discovery reads, which determines its time: about 14 µs
// per existing file. The time itself depends on the load of the machine.
func TestLargeMachineReadsFewFiles(t *testing.T) {
	c := &counter{FS: parse(t, generated{machine: large()}.text())}
	discover(t, c)
	if c.found > 2400 || c.missing > 300 {
		t.Errorf("%d files read and %d looked for in vain, for 512 CPUs", c.found, c.missing)
	}
	t.Logf("%d files read, %d looked for in vain", c.found, c.missing)
}

// BenchmarkDiscover512 discovers a machine of 512 CPUs from files, as the commands do. The goal is 50 ms.
func BenchmarkDiscover512(b *testing.B) {
	host := plain.New(b)
	for name, text := range large().files() {
		host.Write(name, text)
	}
	root := host.Root()
	for b.Loop() {
		if found, err := topology.Discover(root.FS()); err != nil || len(found.Cores) != 256 {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkRecording512 does the same from one recording.
func BenchmarkRecording512(b *testing.B) {
	text := generated{machine: large()}.text()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if found := discover(b, parse(b, text)); len(found.Cores) != 256 {
			b.Fatal(found)
		}
	}
}

func TestDecodeFillsWhatIsAbsent(t *testing.T) {
	found, err := topology.Decode([]byte(`{"cores":[{"cpus":"4-5","kind":"efficiency"},{"cpus":"0,2"}],"l3":[{"id":3,"cpus":"0,2"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, found)
	got := fmt.Sprint(found.Online, found.Nodes, found.Cores, found.Sockets == nil, found.Warnings == nil)
	if want := "0,2,4-5 [{0 0,2,4-5 0 0 [] [10]}] [{0 0,2 -1 0 3 } {4 4-5 -1 0 -1 efficiency}] false false"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	const good = `{"online":"0-3","sockets":[{"id":0,"cpus":"0-3"}],"numaNodes":[{"id":0,"cpus":"0-1","distances":[10,20]},{"id":1,"cpus":"2-3","distances":[20,10]}],` +
		`"l3":[{"id":0,"cpus":"0-3"}],"cores":[{"id":0,"cpus":"0-1","socket":0,"numa":0,"l3":0,"kind":""},{"id":2,"cpus":"2-3","socket":0,"numa":1,"l3":0}]}`
	if _, err := topology.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, to, names string }{
		{`"online"`, `"onlin"`, `unknown field "onlin"`},
		{`"numa":1`, `"nmua":1`, `unknown field "nmua"`},
		{`{"online"`, `[{"online"`, "invalid"},
		{`"l3":0}]}`, `"l3":0}]} x`, "after the document"},
		{`"online":"0-3"`, `"online":"0-x"`, "byte 2"},
		{`"online":"0-3"`, `"online":"0-4"`, "online"},
		{`"online":"0-3"`, `"online":"0-3","offline":"3"`, "offline"},
		{`"cpus":"2-3","socket"`, `"cpus":"1-3","socket"`, "cores[1].cpus"},
		{`"cpus":"2-3","socket"`, `"cpus":"","socket"`, "cores[1].cpus"},
		{`"numa":1`, `"numa":0`, "cores[1].numa 0"},
		{`"socket":0,"numa":1`, `"socket":-1,"numa":1`, "cores[1].socket"},
		{`"kind":""`, `"kind":"fast"`, "cores[0].kind"},
		{`"id":2`, `"id":0`, "id 0 twice"},
		{`"id":0,"cpus":"0-1","socket"`, `"id":-5,"cpus":"0-1","socket"`, "id -5"},
		{`{"id":1,"cpus":"2-3"`, `{"id":0,"cpus":"2-3"`, "numaNodes[1].id"},
		{`{"id":1,"cpus":"2-3"`, `{"id":1,"cpus":"1-3"`, "numaNodes[1].cpus"},
		{`[20,10]`, `[20]`, "numaNodes[1].distances"},
		{`"distances":[20,10]`, `"distances":[20,10],"memoryBytes":-1`, "memoryBytes"},
		{`"sockets":[{"id":0,"cpus":"0-3"}]`, `"sockets":[{"id":0,"cpus":"0-2"}]`, "sockets[0].cpus"},
		{`"l3":[{"id":0,"cpus":"0-3"}]`, `"l3":[{"id":0,"cpus":"0-2"}]`, "l3[0].cpus"},
	} {
		text := strings.Replace(good, test.from, test.to, 1)
		if text == good {
			t.Fatalf("%s is not in the document", test.from)
		}
		if _, err := topology.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: got %v, want %s", test.to, err, test.names)
		}
	}
}
