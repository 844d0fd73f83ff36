package apply

import (
	"errors"

	"github.com/berth-project/berth/internal/engine/plan"
)

// settleRecords removes Berth's values from the records of other programs. It runs after the targets are restored and
// before their entries are forgotten, so that a later Restore does what a crash left undone. open is true for a target
// that is gone and whose value may still be on record. An object that is created next under its name needs the entry.
func (a *Applier) settleRecords(call *call, list []Restored) (open map[plan.Target]bool) {
	open = map[plan.Target]bool{}
	for i, r := range list {
		recurs := r.Outcome == OutcomeGone && a.values.Recurs(r.Entry.Target)
		if !recurs && r.Outcome != OutcomeRestored && r.Outcome != OutcomeAlready {
			continue
		}
		asked := false
		if a.records {
			list[i], asked = a.settleRecord(call, r)
		}
		open[r.Entry.Target] = recurs && !asked
	}
	return open
}

// settleRecord records the original with the other program where that program has a value of Berth's on record. It then
// corrects the target if the program wrote another value there. asked reports whether that program was asked.
func (a *Applier) settleRecord(call *call, r Restored) (settled Restored, asked bool) {
	e := r.Entry
	recorder, ok := offers[Recorder](call, e.Target)
	if !ok {
		return r, true
	}
	has, recorded, err := recorder.Recorded(e.Target, e.Original)
	if errors.Is(err, ErrDeferred) {
		return r, false
	}
	if err != nil {
		return r.failed(err), false
	}
	if !recorded || !e.IsOurs(a.values, has) || e.IsOriginal(a.values, has) {
		return r, true
	}
	stands, err := recorder.SetRecorded(e.Target, e.Original)
	if err != nil {
		return r.failed(err), true
	}
	if !stands {
		return r, true
	}
	return a.settleTarget(call, recorder, r), true
}

// settleTarget compares once more, since changing the record took time, and corrects the target. The value on record
// may be the original as the other program rounds it.
func (a *Applier) settleTarget(call *call, recorder Recorder, r Restored) Restored {
	now := compare(call, r.Entry)
	switch now.Outcome {
	case OutcomeAlready:
		return r
	case OutcomeGone, OutcomeFailed, OutcomePartly:
		return now
	case OutcomeDrifted:
		rounded, recorded, err := recorder.Recorded(r.Entry.Target, r.Entry.Original)
		if err != nil {
			return r.failed(err)
		}
		if !recorded || !a.values.Same(r.Entry.Target, now.Found, rounded) {
			return now
		}
	case OutcomeRestored:
	}
	if _, _, err := a.write(call, wayBack(r.Entry, now.Found), StepRestored, StepRestoreVerified); err != nil {
		return r.failed(err)
	}
	return r
}
