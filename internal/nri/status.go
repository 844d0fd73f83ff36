package nri

import "time"

// Link is how far a Plugin is connected.
type Link uint8

// The states of the link.
const (
	// Away: there is no connection. The Plugin tries again.
	Away Link = iota
	// Registering: the runtime took the connection, but has not reported its state.
	Registering
	// Connected: the runtime's state was reported and answered, and events come.
	Connected
)

// String returns the state in words.
func (l Link) String() string {
	return [...]string{"away", "registering", "connected"}[min(l, Connected)]
}

// Status is what is known of the connection.
type Status struct {
	State Link
	// Since is when State began.
	Since time.Time
	// Runtime and RuntimeVersion are what the runtime calls itself, such as
	// containerd and v2.1.4, and NRIVersion the interface's version it has
	// built in, as in v0.12.1: as it says, or inferred from the runtime's; "" is
	// not known. They are those of the last connection.
	Runtime, RuntimeVersion, NRIVersion string
	// Connections counts how often State became Connected.
	Connections int
	// Late counts requests that got no answer of the handler in time.
	Late uint64
	// Err is why the last connection ended or could not be made, nil while
	// there is one.
	Err error
}

// Status returns what is known of the connection now.
func (p *Plugin) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// note changes the status, and reports a change of its state.
func (p *Plugin) note(change func(*Status)) {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.mu.Lock()
	before := p.status.State
	change(&p.status)
	changed := p.status.State != before
	if changed {
		p.status.Since = time.Now()
	}
	now := p.status
	p.mu.Unlock()
	if !changed {
		return
	}
	p.opts.Log.Info("NRI "+now.State.String(), "runtime", now.Runtime, "version", now.RuntimeVersion, "nri", now.NRIVersion, "err", now.Err)
	if p.opts.Changed != nil {
		p.opts.Changed(now)
	}
}
