package load

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// Calls is a kind of system calls that keep a thread in the kernel: from Linux 6.18 on, no quota stops a thread in one.
type Calls string

// The kinds of long system calls.
const (
	// NoCalls are none.
	NoCalls Calls = ""
	// AllCalls are those of every kind in turns.
	AllCalls Calls = "all"
	// RandomCalls make the kernel generate random numbers.
	RandomCalls Calls = "random"
	// SpliceCalls copy from one file in memory to another.
	SpliceCalls Calls = "splice"
	// FaultCalls make the kernel clear fresh pages.
	FaultCalls Calls = "faults"
	// FutexCalls are many short calls in which two threads wake each other.
	FutexCalls Calls = "futex"
)

// CallKinds returns the kinds, without NoCalls and AllCalls.
func CallKinds() []Calls { return []Calls{RandomCalls, SpliceCalls, FaultCalls, FutexCalls} }

// kinds returns the kinds that c consists of.
func (c Calls) kinds() []Calls {
	if c == AllCalls {
		return CallKinds()
	}
	return []Calls{c}
}

// CallTimes is the longest CPU time of one system call of each kind, in seconds.
type CallTimes map[Calls]float64

// Longest returns the longest time of a call of the kinds in c, 0 for NoCalls.
func (t CallTimes) Longest(c Calls) time.Duration {
	longest := 0.0
	for _, kind := range c.kinds() {
		longest = max(longest, t[kind])
	}
	return time.Duration(longest * float64(time.Second))
}

// TimeCalls measures the system calls of every kind, each so many times on some threads at once, and changes nothing else:
// threads in the same call wait for each other's memory and locks. Without a limit no call waits for quota.
func TimeCalls(threads, runs int) (times CallTimes, err error) {
	if threads < 1 || runs < 1 {
		return nil, fmt.Errorf("threads %d, runs %d: allowed: above 0: %w", threads, runs, ErrBadLoad)
	}
	all := make([]*calls, 0, threads)
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for range threads {
		c, err := openCalls(AllCalls)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	times = CallTimes{}
	for range runs {
		for _, kind := range CallKinds() {
			took, err := together(all, kind)
			if err != nil {
				return nil, err
			}
			times[kind] = max(times[kind], took.Seconds())
		}
	}
	return times, nil
}

// together returns the CPU time of the longest system call of a kind, of which each thread makes one turn.
func together(all []*calls, kind Calls) (time.Duration, error) {
	took := make([]time.Duration, len(all))
	var threads errgroup.Group
	for i, c := range all {
		threads.Go(func() (err error) {
			runtime.LockOSThread() // the clock is the thread's
			defer runtime.UnlockOSThread()
			took[i], err = c.time(kind)
			return err
		})
	}
	err := threads.Wait()
	return slices.Max(took), err
}

// time returns the CPU time of the longest system call of one turn. A call of FutexCalls is too short for the clock, so
// it is the mean.
func (c *calls) time(kind Calls) (time.Duration, error) {
	c.longest = 0
	before, err := kernel.ThreadCPUTime()
	if err != nil {
		return 0, fmt.Errorf("time system calls %s: %w", kind, err)
	}
	if err := c.make(kind); err != nil {
		return 0, err
	}
	after, err := kernel.ThreadCPUTime()
	if err != nil {
		return 0, fmt.Errorf("time system calls %s: %w", kind, err)
	}
	if kind == FutexCalls {
		return (after - before) / futexTurns, nil
	}
	return c.longest, nil
}

// timed makes one system call and keeps its CPU time if it is the longest. Only time reads the result, on a locked
// thread.
func (c *calls) timed(call func() error) error {
	before, err := kernel.ThreadCPUTime()
	if err != nil {
		return fmt.Errorf("time a system call: %w", err)
	}
	if err := call(); err != nil {
		return err
	}
	after, err := kernel.ThreadCPUTime()
	if err != nil {
		return fmt.Errorf("time a system call: %w", err)
	}
	c.longest = max(c.longest, after-before)
	return nil
}

const (
	// callBytes is the size of a long call. 32 MiB of random numbers take about 50 ms.
	callBytes = 32 << 20
	// futexTurns is how often two threads wake each other in a turn.
	futexTurns = 1000
)

// calls makes the system calls of some kinds, one kind after the other.
type calls struct {
	kinds            []Calls
	buffer           []byte
	random, from, to *os.File
	turn             int
	longest          time.Duration
}

func openCalls(kinds Calls) (c *calls, err error) {
	c = &calls{kinds: kinds.kinds(), buffer: make([]byte, callBytes)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.random, err = os.Open("/dev/urandom"); err != nil {
		return c, fmt.Errorf("long system calls: %w", err)
	}
	if c.from, err = unnamed(); err != nil {
		return c, err
	}
	if c.to, err = unnamed(); err != nil {
		return c, err
	}
	if _, err := c.from.WriteAt(c.buffer, 0); err != nil {
		return c, fmt.Errorf("fill a file: %w", err)
	}
	return c, nil
}

// unnamed returns a file in memory that is in no directory.
func unnamed() (*os.File, error) {
	f, err := os.CreateTemp("/dev/shm", "berth-*")
	if err != nil {
		return nil, fmt.Errorf("file in memory: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return f, fmt.Errorf("file in memory: %w", err)
	}
	return f, nil
}

func (c *calls) close() {
	for _, f := range []*os.File{c.random, c.from, c.to} {
		if f != nil {
			_ = f.Close() // no data is lost
		}
	}
}

// next makes one long call, or many short calls.
func (c *calls) next() error {
	c.turn++
	return c.make(c.kinds[c.turn%len(c.kinds)])
}

// make makes the calls of one turn of a kind.
func (c *calls) make(kind Calls) error {
	switch kind {
	case RandomCalls:
		return c.timed(c.numbers)
	case SpliceCalls:
		return c.splice()
	case FaultCalls:
		return c.faults()
	case FutexCalls:
		return c.futexes()
	case NoCalls, AllCalls:
	}
	return fmt.Errorf("system calls %q: %w", kind, ErrBadLoad)
}

// numbers makes the kernel generate random numbers, as getrandom does.
func (c *calls) numbers() error {
	if _, err := c.random.Read(c.buffer); err != nil {
		return fmt.Errorf("random numbers: %w", err)
	}
	return nil
}

// splice moves pages from one file to the other.
func (c *calls) splice() error {
	if _, err := c.to.Seek(0, 0); err != nil {
		return fmt.Errorf("seek: %w", err)
	}
	return c.timed(func() error {
		start := int64(0)
		if _, err := syscall.Sendfile(int(c.to.Fd()), int(c.from.Fd()), &start, callBytes); err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("sendfile: %w", err)
		}
		return nil
	})
}

// faults makes the kernel touch fresh pages.
func (c *calls) faults() error {
	var pages []byte
	populate := func() (err error) {
		pages, err = syscall.Mmap(-1, 0, callBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("mmap: %w", err)
		}
		return nil
	}
	if err := c.timed(populate); err != nil {
		return err
	}
	return c.timed(func() error {
		if err := syscall.Munmap(pages); err != nil {
			return fmt.Errorf("munmap: %w", err)
		}
		return nil
	})
}

// futexes makes two threads wake each other: each turn is a call of both threads.
func (c *calls) futexes() error {
	ping := make(chan struct{})
	var partner sync.WaitGroup
	partner.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range futexTurns {
			<-ping
		}
	})
	defer partner.Wait()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range futexTurns {
		ping <- struct{}{}
	}
	return nil
}
