package view

import (
	"slices"
	"time"
)

// kept is the most events in a Log.
const kept = 200

// Event is something that happened.
type Event struct {
	At time.Time `json:"at"`
	// About is the pod, the workload or the group that the event concerns, empty for the node.
	About string `json:"about,omitempty"`
	// Reason is one word, Text one or more sentences; Warning marks a problem.
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

// Log has the last events, the oldest first. The zero value is empty.
type Log struct{ events []Event }

// Add adds an event. It drops the oldest event if the Log is full.
func (l *Log) Add(e Event) {
	if len(l.events) == kept {
		l.events = slices.Delete(l.events, 0, 1)
	}
	l.events = append(l.events, e)
}

// Renew replaces earlier events with the same reason and subject. A state that comes and goes within seconds does not
// displace other events.
func (l *Log) Renew(e Event) {
	l.events = slices.DeleteFunc(l.events, func(o Event) bool { return o.About == e.About && o.Reason == e.Reason })
	l.Add(e)
}

// All returns a copy of the events.
func (l *Log) All() []Event { return slices.Clone(l.events) }
