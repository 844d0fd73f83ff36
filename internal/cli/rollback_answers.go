package cli

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/node/statedir"
)

// answersOf returns what agents of this boot answered the container runtime. The error says what is unreadable.
func answersOf(stateDir, boot string) (map[string]systemd.Answered, error) {
	all, err := statedir.NewAnswers(stateDir, boot).Recall()
	answers := make(map[string]systemd.Answered, len(all))
	for id, a := range all {
		answers[id] = systemd.Answered{Pod: a.Pod, CPUs: a.CPUs, Mems: a.Mems, NoQuota: a.NoQuota}
	}
	return answers, err
}

// withAnswers adds the outcome of the answers that systemd had on record.
func (u undone) withAnswers(t systemd.TakenBack) undone {
	u.lines = append(u.lines, lineUp(t.Restored, false)...)
	if len(t.Restored) > 0 {
		u.notes = append(u.notes, fmt.Sprintf("answers to the container runtime that systemd had on record, and would have written again: %d", len(t.Restored)))
	}
	for _, group := range t.Lost {
		u.notes = append(u.notes, group+" has no quota: systemd wrote that again, and what it had before is not known; end the container, or write its limit yourself")
	}
	u.failed = errors.Join(u.failed, outcome(t.Restored), t.Err)
	return u
}
