package bench

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

// burner is a process of one thread that never sleeps, bound to a CPU from its first instruction on.
type burner struct {
	side side
	cpu  int
}

// burnProgram writes a program that is one instruction, a jump to itself. A machine of the tests has no shell, and a
// program of Go has more than one thread.
func burnProgram(t *testing.T) string {
	t.Helper()
	code, machine := []byte{0xeb, 0xfe}, elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		code, machine = []byte{0, 0, 0, 0x14}, elf.EM_AARCH64
	}
	const at, headers = 0x400000, 64 + 56
	head := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Entry: at + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: at, Paddr: at, Filesz: headers + uint64(len(code)), Memsz: headers + uint64(len(code)), Align: 0x1000}
	var program bytes.Buffer
	for _, part := range []any{head, segment, code} {
		if err := binary.Write(&program, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "burn")
	if err := os.WriteFile(file, program.Bytes(), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return file
}

// startBurners starts burners and returns their processes by side.
func startBurners(t *testing.T, burners []burner) map[int]side {
	t.Helper()
	program, started, of := burnProgram(t), make(chan int), map[int]side{}
	for _, b := range burners {
		cmd := exec.CommandContext(t.Context(), program)
		t.Cleanup(func() {
			if cmd.Process != nil {
				_, _ = cmd.Process.Kill(), cmd.Wait()
			}
		})
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its CPUs
			if err := errors.Join(kernel.BindCPUs(cpuset.Set{}.Add(b.cpu)), cmd.Start()); err != nil {
				t.Error(err)
				started <- 0
				return
			}
			started <- cmd.Process.Pid
		}()
		pid := <-started
		if pid == 0 {
			t.FailNow()
		}
		of[pid] = b.side
	}
	return of
}

// TestLiveWaitsBehind checks on the real kernel behind whom threads wait. Whatever else the machine does: bound threads
// that share a CPU wait for each other sometime, and no bound thread ever waits behind a thread that is bound to another
// CPU, or behind its own process, which has one thread. Waits behind others are possible in each case.
func TestLiveWaitsBehind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the scheduler's events of all processes need root; runs on the host: make test")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := kernel.OwnGroupCPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpus := slices.Collect(own.All())
	if len(cpus) < 2 {
		t.Skip("needs two CPUs; runs in the VM: make verify-kernels")
	}
	for name, c := range map[string]struct {
		burners []burner
		// some are the sides behind which threads must wait, never those behind which they cannot.
		some, never []side
	}{
		"a hog on the server's CPU":    {[]burner{{online, 0}, {offline, 0}}, []side{offline}, []side{online}},
		"two online threads on a CPU":  {[]burner{{online, 0}, {online, 0}, {offline, 1}}, []side{online}, []side{offline}},
		"the hog on another CPU":       {[]burner{{online, 0}, {others, 0}, {offline, 1}}, []side{others}, []side{online, offline}},
		"all three, a hog beside both": {[]burner{{online, 0}, {online, 0}, {offline, 0}}, []side{online, offline}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.burners {
				c.burners[i].cpu = cpus[c.burners[i].cpu]
			}
			of := startBurners(t, c.burners)
			s := scheduler{cpus: own, switches: true, wakeups: true}
			recording, err := s.record()
			if errors.Is(err, kernel.ErrNotSupported) || errors.Is(err, kernel.ErrOtherPIDs) {
				t.Skipf("%v; runs on the host: make test", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := recording.Close(); err != nil {
					t.Error(err)
				}
			}()
			recording.Read()
			trace, seen, waited := newScene(nil, of, kernel.Monotonic()), 0, [sideCount]time.Duration{}
			look := func() string {
				until := kernel.Monotonic()
				all, lost := recording.Read()
				if lost > 0 { // this test did not run for long: begin again
					trace, seen = newScene(nil, of, kernel.Monotonic()), 0
					return "events were lost"
				}
				trace.take(all, until)
				seen += len(all)
				waited = trace.waits.total()
				for _, s := range c.some {
					if waited[s] == 0 {
						return fmt.Sprintf("%d events, no wait behind side %d", seen, s)
					}
				}
				if seen < 500 {
					return fmt.Sprintf("%d events", seen)
				}
				return ""
			}
			if err := patience.Until(t.Context(), 20*time.Millisecond, look); err != nil {
				t.Error(err)
			}
			for _, s := range c.never {
				if waited[s] > 0 {
					t.Errorf("broken law: threads waited for %v behind side %d, which cannot be", waited[s], s)
				}
			}
			t.Logf("%d events, %d waits, behind others %v, online %v, offline %v, nobody %v; %d unseen", seen, trace.waits.ended, waited[others], waited[online], waited[offline], waited[nobody], trace.waits.unseen)
		})
	}
}
