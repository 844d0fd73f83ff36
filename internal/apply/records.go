package apply

import (
	"github.com/berth-project/berth/internal/journal"
)

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
		if err := a.settleRecord(call, r.Entry); err != nil {
			list[i] = r.failed(err)
		}
	}
}

// settleRecord puts the original on record where a value of Berth's own is, and the target
// right if the other program wrote another one then.
func (a *Applier) settleRecord(call *call, e journal.Entry) error {
	d, err := call.driver(e.Target)
	recorder, ok := d.(Recorder)
	if err != nil || !ok {
		return err
	}
	has, recorded, err := recorder.Recorded(e.Target, e.Original)
	if err != nil || !recorded || !e.IsOurs(a.values, has) || e.IsOriginal(a.values, has) {
		return err
	}
	stands, err := recorder.SetRecorded(e.Target, e.Original)
	if err != nil || stands == "" || e.IsOriginal(a.values, stands) || attainable(call, e).IsOriginal(a.values, stands) {
		return err
	}
	_, _, err = a.write(call, wayBack(e, stands), StepRestored, StepRestoreVerified)
	return err
}
