package load

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// callBytes is the size of a long call. 32 MiB of random numbers take about 50 ms.
const callBytes = 32 << 20

// calls makes system calls that keep a thread in the kernel, one kind after the other.
type calls struct {
	buffer           []byte
	random, from, to *os.File
	turn             int
}

func openCalls() (c *calls, err error) {
	c = &calls{buffer: make([]byte, callBytes)}
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
	kinds := []func() error{c.numbers, c.splice, c.faults, c.futexes}
	c.turn++
	return kinds[c.turn%len(kinds)]()
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
	start := int64(0)
	if _, err := c.to.Seek(0, 0); err != nil {
		return fmt.Errorf("seek: %w", err)
	}
	if _, err := syscall.Sendfile(int(c.to.Fd()), int(c.from.Fd()), &start, callBytes); err != nil && !errors.Is(err, syscall.EINTR) {
		return fmt.Errorf("sendfile: %w", err)
	}
	return nil
}

// faults makes the kernel touch fresh pages.
func (c *calls) faults() error {
	pages, err := syscall.Mmap(-1, 0, callBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	if err := syscall.Munmap(pages); err != nil {
		return fmt.Errorf("munmap: %w", err)
	}
	return nil
}

// futexes makes two threads wake each other: each turn is a call of both threads.
func (c *calls) futexes() error {
	const turns = 1000
	ping := make(chan struct{})
	var partner sync.WaitGroup
	partner.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range turns {
			<-ping
		}
	})
	defer partner.Wait()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range turns {
		ping <- struct{}{}
	}
	return nil
}
