package hardware

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/berth-project/berth/test/plain"
)

// CPUs that come and go are seen at the next reading, through files that stay open.
func TestCPUs(t *testing.T) {
	h := plain.New(t)
	write := func(name, content string) { h.Write(cpuDir+"/"+name, content) }
	root := h.Root()
	var cpus CPUs
	if err := cpus.Read(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, step := range []struct{ online, isolated string }{{"0-3", ""}, {"0-3", "2-3"}, {"0-1", "2-3"}, {"0-7", ""}} {
		write(onlineFile, step.online+"\n")
		if step.isolated != "" || cpus.isolKept != nil {
			write(isolatedFile, step.isolated+"\n")
		}
		if err := cpus.Read(root); err != nil || cpus.Online != set(t, step.online) || cpus.Isolated != set(t, step.isolated) {
			t.Errorf("%s online, %s isolated, %v; want %+v", cpus.Online, cpus.Isolated, err, step)
		}
	}
	write(onlineFile, "damaged\n")
	if err := cpus.Read(root); err == nil || cpus.Online != set(t, "0-7") {
		t.Errorf("damaged: %s, %v", cpus.Online, err)
	}
}
