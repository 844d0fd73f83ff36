package kubelet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"
)

// readEvery is the interval of readings of the kubelet's configuration, which changes only when the kubelet restarts.
const readEvery = 10 * time.Second

// Source describes where the configuration of this node's kubelet is read.
type Source struct {
	// Client is nil if the kubelet cannot be asked.
	Client *Client
	// Dir is the kubelet's root directory (its flag --root-dir).
	Dir string
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
// or take returns an error, which Watch returns.
func (s Source) Watch(ctx context.Context, take func(Reading) error) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		if err := take(s.Read(ctx)); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Read asks the kubelet, and reads its files if it does not answer. A reading from files is never Whole.
func (s Source) Read(ctx context.Context) Reading {
	r := s.readConfig(ctx)
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
