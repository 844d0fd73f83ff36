package kubelet

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// readEvery is the interval of readings. While nothing but the configuration counts, which changes only when the
	// kubelet restarts, Watch looks this often whether it restarted.
	readEvery = 10 * time.Second
	// restReadings is how many intervals a reading lasts at most without a restart.
	restReadings = 6
)

// Source describes where the configuration of this node's kubelet is read.
type Source struct {
	// Client is nil if the kubelet cannot be asked.
	Client *Client
	// Dir is the kubelet's root directory (its flag --root-dir).
	Dir string
	// OneNode reports whether the machine has one NUMA node only: where devices and memory are does not matter then, and
	// they are not asked for. A nil func means no.
	OneNode func() bool
}

// Reading is one reading of the kubelet's configuration.
type Reading struct {
	Config Config
	// Whole is false if Config is from files: flags, defaults and drop-ins are not in them.
	Whole bool
	// Err is why nothing is known. ErrReplaced is permanent.
	Err error
	// Devices are the devices of device plugins, and DevicesErr is why they are unknown.
	Devices    []Device
	DevicesErr error
	// Memory is the memory manager's allocation to pods, and MemoryErr is why it is unknown.
	Memory    []Memory
	MemoryErr error
}

// Watch reads the configuration at once and then periodically, and passes each reading to take. It ends when ctx ends
// or take returns an error, which Watch returns. It reads every 10 s, or once a minute and after a restart of the
// kubelet, if a reading lasts that long.
func (s Source) Watch(ctx context.Context, take func(Reading) error) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		kubelet, known := s.running() // before the reading, so that a restart during it is noticed
		r := s.Read(ctx)
		if err := take(r); err != nil {
			return err
		}
		rest := 1
		if known && r.Whole && s.oneNode() {
			rest = restReadings
		}
		for ; rest > 0; rest-- {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
			if now, _ := s.running(); now != kubelet {
				break
			}
		}
	}
}

// process identifies a running kubelet: the inode of its socket, which every kubelet makes again when it starts, and
// when that inode last changed.
type process struct {
	device, inode uint64
	changed       syscall.Timespec
}

// running returns the kubelet that made the socket of the PodResources API; known is false if there is none.
func (s Source) running() (kubelet process, known bool) {
	info, err := os.Stat(filepath.Join(s.Dir, resourcesSocket))
	if err != nil {
		return process{}, false
	}
	status, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return process{}, false
	}
	return process{status.Dev, status.Ino, status.Ctim}, true
}

func (s Source) oneNode() bool { return s.OneNode != nil && s.OneNode() }

// Read asks the kubelet, and reads its files if it does not answer. A reading from files is never Whole.
func (s Source) Read(ctx context.Context) Reading {
	r := s.readConfig(ctx)
	if s.oneNode() {
		return r
	}
	r.Devices, r.DevicesErr = s.Devices(ctx)
	switch {
	case r.Err != nil:
		r.MemoryErr = r.Err
	case r.Config.MemoryManagerPolicy != noMemoryManager:
		r.Memory, r.MemoryErr = s.Memory(ctx)
	}
	return r
}

func (s Source) readConfig(ctx context.Context) Reading {
	var asked error
	if s.Client != nil {
		config, err := s.Client.Configz(ctx)
		if err == nil {
			return Reading{Config: config, Whole: true}
		}
		asked = err
	}
	config, err := ReadConfig(filepath.Join(s.Dir, "config.yaml"))
	if errors.Is(err, ErrReplaced) {
		return Reading{Err: errors.Join(asked, err)}
	}
	if err != nil {
		config = Config{}
	}
	state, serr := ReadState(s.Dir)
	if serr != nil {
		return Reading{Err: errors.Join(asked, err, serr)}
	}
	config.CPUManagerPolicy = state.Policy // the policy in effect; the file may be newer
	config.MemoryManagerPolicy = cmp.Or(state.MemoryPolicy, config.MemoryManagerPolicy)
	return Reading{Config: config} // flags, defaults and drop-ins are not in the file
}
