package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	pageSize = 4 << 10
	mostMiB  = 1 << 20
	// touches is how many pages one request of a Filler writes to.
	touches = 16
	// policyLocal is MPOL_LOCAL of include/uapi/linux/mempolicy.h.
	policyLocal = 4
)

// Filler is a workload that fills memory and then works with it.
type Filler struct {
	MiB int
	// Huge requests huge pages; otherwise the memory has none.
	Huge bool
	// Fill is the CPUs on which the filler fills its memory, so that it comes from their node. Then is the CPUs on
	// which it continues.
	Fill, Then cpuset.Set
	// Hog makes the filler write to all pages again and again.
	Hog bool
	// Every is the time between two requests, each of which writes to some random pages; 0 means no requests. Out is
	// the file that gets them in the end.
	Every time.Duration
	Out   string
}

// Touched is one request of a Filler.
type Touched struct {
	// Intended is when the request was due, on the clock of kernel.Monotonic. Latency counts from Intended; Stall is
	// the longest write to one page.
	Intended, Latency, Stall time.Duration
}

// Run fills the memory, calls ready, and works until ctx ends.
func (f Filler) Run(ctx context.Context, ready func()) (err error) {
	if f.MiB < 1 || f.MiB > mostMiB || f.Every < 0 {
		return fmt.Errorf("filler with %d MiB (1..%d), a request every %s: %w", f.MiB, mostMiB, f.Every, ErrBadLoad)
	}
	// The kernel balances NUMA nodes by the pages of threads without a policy. MPOL_LOCAL equals no policy, except that
	// it prevents balancing.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SET_MEMPOLICY, policyLocal, 0, 0); errno != 0 && !errors.Is(errno, syscall.ENOSYS) {
		return fmt.Errorf("filler without NUMA balancing: %w", errno)
	}
	if err := kernel.Confine(f.Fill); err != nil {
		return fmt.Errorf("filler: %w", err)
	}
	region, err := syscall.Mmap(-1, 0, f.MiB<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return fmt.Errorf("filler with %d MiB: %w", f.MiB, err)
	}
	defer func() { err = errors.Join(err, syscall.Munmap(region)) }()
	advice := syscall.MADV_NOHUGEPAGE
	if f.Huge {
		advice = syscall.MADV_HUGEPAGE
	}
	// A kernel without huge pages refuses both kinds of advice, and makes no huge pages.
	if err := syscall.Madvise(region, advice); err != nil && f.Huge {
		return fmt.Errorf("filler with huge pages: %w", err)
	}
	write(region)
	if err := kernel.Confine(f.Then); err != nil {
		return fmt.Errorf("filler: %w", err)
	}
	ready()
	switch {
	case f.Hog:
		for ctx.Err() == nil {
			write(region)
		}
	case f.Every > 0:
		return f.serve(ctx, region)
	}
	<-ctx.Done()
	return nil
}

// write writes to each page. It does not read first: a page of zeroes that was only read is not the process's yet, and
// older kernels put no huge page there.
func write(region []byte) {
	for i := 0; i < len(region); i += pageSize {
		region[i] = 1
	}
}

// serve makes each request at its time, however long the request before took.
func (f Filler) serve(ctx context.Context, region []byte) (err error) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []Touched
	for due := kernel.Monotonic() + f.Every; ctx.Err() == nil; due += f.Every {
		time.Sleep(due - kernel.Monotonic())
		t, began := Touched{Intended: due}, kernel.Monotonic()
		for range touches {
			region[random.IntN(len(region)/pageSize)*pageSize] = 1
			now := kernel.Monotonic()
			t.Stall, began = max(t.Stall, now-began), now
		}
		t.Latency = began - due
		all = append(all, t)
	}
	file, err := os.Create(f.Out)
	if err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	_, _ = fmt.Fprintln(out, "intended_ns,latency_ns,stall_ns") // Flush returns the errors.
	for _, t := range all {
		_, _ = fmt.Fprintf(out, "%d,%d,%d\n", t.Intended, t.Latency, t.Stall)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	return nil
}

// ReadTouched reads the file of a Filler.
func ReadTouched(r io.Reader) ([]Touched, error) {
	var all []Touched
	in := bufio.NewScanner(r)
	in.Scan()
	for in.Scan() {
		var t Touched
		if _, err := fmt.Sscanf(in.Text(), "%d,%d,%d", &t.Intended, &t.Latency, &t.Stall); err != nil {
			return nil, fmt.Errorf("request %q: %w", in.Text(), err)
		}
		all = append(all, t)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	return all, nil
}
