package kubelet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"
)

// readEvery is how often the kubelet's configuration is read again: it changes
// only when the kubelet is started anew.
const readEvery = 10 * time.Second

// Source is where the configuration of this node's kubelet is read.
type Source struct {
	// Client is nil where there is no way to ask the kubelet.
	Client *Client
	// Dir is the kubelet's root directory (its flag --root-dir).
	Dir string
}

// Reading is what the kubelet's configuration says at one moment.
type Reading struct {
	Config Config
	// Whole is false where the kubelet's files said it: flags, defaults and drop-ins are not in them.
	Whole bool
	// Err is why nothing is known. ErrReplaced is one that stays.
	Err error
	// Devices are those of device plugins, and DevicesErr is why they are not known.
	Devices    []Device
	DevicesErr error
	// Memory is what the memory manager gave to pods, and MemoryErr is why it is not known.
	Memory    []Memory
	MemoryErr error
}

// Watch reads the configuration at once and then again and again, and hands each reading
// to take, until ctx ends or take returns an error, which Watch returns.
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

// Read asks the kubelet, and reads its files where it does not answer. Its
// state alone, without its configuration, is not the whole.
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
	config.CPUManagerPolicy = state.Policy // what it runs with; the file may be newer
	config.MemoryManagerPolicy = cmp.Or(state.MemoryPolicy, config.MemoryManagerPolicy)
	return Reading{Config: config} // flags, defaults and drop-ins are not in the file
}
