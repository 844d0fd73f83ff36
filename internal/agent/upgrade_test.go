package agent

import (
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/nri"
)

// TestUpgrade continues with what an agent of commit 80a17d1 left behind when it was killed, under workloads that
// burst, are pinned, have moved their memory, or are idle. The agent must not write again what is in effect, must
// retain credit, and must restore every original at its end.
func TestUpgrade(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, fake *moves) {
		m.recorded("testdata/state-80a17d1.txtar")
		time.Sleep(26 * time.Second) // the recorded agent ran that long
		m.used, m.busy = 8*time.Second, 8*time.Second
		before := m.groupFiles()
		// A raised quota now differs from every quota that the kubelet would write (credit.Apart).
		before["sys/fs/cgroup/app/cpu.max"], before["sys/fs/cgroup/idle/cpu.max"] = "149998 100000", "299998 100000"
		m.boot()
		m.end()
		m.shares()
		m.answers(nri.Event{
			Kind:       nri.Synchronize,
			Pods:       []nri.Pod{eventOf(nri.Start, "p", "").Pod, eventOf(nri.Start, "x", "").Pod},
			Containers: []nri.Container{eventOf(nri.Start, "p", "podp/c").Container, eventOf(nri.Start, "x", "podx/c").Container},
		})
		m.begin()
		m.run(3*time.Second, 0.5)
		for file, was := range before {
			if got := m.read(file); got != was {
				t.Errorf("%s is %q, the agent before had %q", file, got, was)
			}
		}
		if n, _ := fake.ordered(); n != 0 {
			t.Errorf("%d passes were ordered for memory that had moved", n)
		}
		s := m.status()
		if s.Burst == nil || s.Burst.CreditSeconds < 56 || s.Burst.CreditSeconds > 57 || s.Burst.Writes != 1 {
			t.Errorf("credit and writes: %s", m.statusJSON())
		}
		m.controls.opts.RestoreOnStop = true
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		for file, want := range map[string]string{
			"app/cpu.max": "50000 100000", "app/cpu.max.burst": "0", "idle/cpu.max": "100000 100000", "idle/cpu.max.burst": "0",
			"podp/c/cpu.max": "200000 100000", "podp/c/cpuset.cpus": "", "podx/c/cpuset.cpus": "",
		} {
			if got := m.read("sys/fs/cgroup/" + file); got != want {
				t.Errorf("%s is %q after the end, want %q", file, got, want)
			}
		}
	})
}

// recorded writes the files of a recording. Its braces become the identities of this machine's groups.
func (m *machine) recorded(name string) {
	m.t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		m.t.Fatal(err)
	}
	ids := []string{"{dir}", m.dir}
	for _, f := range archive.Files {
		m.write(f.Name, string(f.Data))
		if group, limited := strings.CutSuffix(f.Name, "/cpu.max"); limited {
			group = strings.TrimPrefix(group, "sys/fs/cgroup/")
			id := m.identity(group)
			ids = append(ids, "{"+group+"}", id.String(), "{ino "+group+"}", fmt.Sprintf(`"ino":%d`, id.Ino), "{dev}", fmt.Sprintf(`"dev":%d`, id.Dev))
		}
	}
	here := strings.NewReplacer(ids...)
	for _, f := range archive.Files {
		switch text := here.Replace(string(f.Data)); {
		case path.Base(f.Name) == "journal":
			m.write(f.Name, checked(text))
		case strings.HasPrefix(f.Name, "etc/state/"):
			m.write(f.Name, text)
		}
	}
}

// checked returns the lines of a journal with the checksums of their present records.
func checked(journal string) string {
	const record = `"rec":`
	out := &strings.Builder{}
	for line := range strings.Lines(journal) {
		_, rec, _ := strings.Cut(strings.TrimSuffix(line, "}\n"), record)
		sum := crc32.Checksum([]byte(rec), crc32.MakeTable(crc32.Castagnoli))
		fmt.Fprintf(out, `{"crc":"%08x",%s%s}`+"\n", sum, record, rec)
	}
	return out.String()
}

// groupFiles returns the present content of the files that the recorded agent wrote.
func (m *machine) groupFiles() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*/cpu.max*", "*/*/cpu.max*", "*/cpuset.cpus", "*/*/cpuset.cpus", "*/cpuset.mems"} {
		files, err := filepath.Glob(m.path("sys/fs/cgroup/" + pattern))
		if err != nil {
			m.t.Fatal(err)
		}
		for _, file := range files {
			name, err := filepath.Rel(m.dir, file)
			if err != nil {
				m.t.Fatal(err)
			}
			all[name] = m.read(name)
		}
	}
	if len(all) < 10 {
		m.t.Fatalf("%d files", len(all))
	}
	return all
}

// identity returns the identity of a group.
func (m *machine) identity(group string) hostfs.ID {
	m.t.Helper()
	info, err := os.Stat(m.path("sys/fs/cgroup/" + group))
	if err != nil {
		m.t.Fatal(err)
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		m.t.Fatalf("%s has no inode", group)
	}
	return hostfs.ID{Dev: stat.Dev, Ino: stat.Ino}
}
