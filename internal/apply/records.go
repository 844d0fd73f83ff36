package apply

// settleRecords takes Berth's values out of the records of other programs. It comes after
// the targets, and before their entries are forgotten: what a crash leaves undone is done
// again.
func (a *Applier) settleRecords(call *call, list []Restored) {
	if !a.records {
		return
	}
	for i, r := range list {
		if r.Outcome != OutcomeRestored && r.Outcome != OutcomeAlready {
			continue
		}
		list[i] = a.settleRecord(call, r)
	}
}

// settleRecord puts the original on record where a value of Berth's own is, and the target
// right if the other program wrote another one then.
func (a *Applier) settleRecord(call *call, r Restored) Restored {
	e := r.Entry
	d, err := call.driver(e.Target)
	recorder, ok := d.(Recorder)
	if err != nil {
		return r.failed(err)
	}
	if !ok {
		return r
	}
	has, recorded, err := recorder.Recorded(e.Target, e.Original)
	if err != nil {
		return r.failed(err)
	}
	if !recorded || !e.IsOurs(a.values, has) || e.IsOriginal(a.values, has) {
		return r
	}
	stands, err := recorder.SetRecorded(e.Target, e.Original)
	if err != nil {
		return r.failed(err)
	}
	if !stands {
		return r
	}
	return a.settleTarget(call, recorder, r)
}

// settleTarget compares once more, since the record took time, and puts the target right.
// What the record has may be the original as the other program rounds it.
func (a *Applier) settleTarget(call *call, recorder Recorder, r Restored) Restored {
	now := compare(call, r.Entry)
	switch now.Outcome {
	case OutcomeAlready:
		return r
	case OutcomeGone, OutcomeFailed:
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
