package nri

import "time"

// Link is the state of a Plugin's connection.
type Link uint8

// The states of the link.
const (
	// Away: there is no connection. The Plugin tries again.
	Away Link = iota
	// Registering: the runtime accepted the connection, but has not reported its state.
	Registering
	// Connected: the runtime's state was reported and answered, and events arrive.
	Connected
)

// String returns the state in words.
func (l Link) String() string {
	return [...]string{"away", "registering", "connected"}[min(l, Connected)]
}

// Status is the status of the connection.
type Status struct {
	State Link
	// Since is when State began.
	Since time.Time
	// Runtime and RuntimeVersion are the runtime's name and version, for example containerd and v2.1.4. NRIVersion is
	// the version of its NRI, like v0.12.1, reported or inferred from the runtime's; "" if unknown. All three are from
	// the last connection.
	Runtime, RuntimeVersion, NRIVersion string
	// Connections counts how often State became Connected.
	Connections int
	// Late counts requests that the handler did not answer in time.
	Late uint64
	// Err is why the last connection ended or could not be made, nil while there is a connection.
	Err error
}

// Status returns the present status of the connection.
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
