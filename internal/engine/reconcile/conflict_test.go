package reconcile

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Each case lists what another writer does to a target and whether Berth may then write. at is the time of Berth's
// check, and stands is the value that it finds.
func TestConflict(t *testing.T) {
	type look struct {
		at     time.Duration
		stands plan.Value
		write  bool
	}
	const original = plan.Value("0-3")
	for name, c := range map[string]struct {
		chosen bool
		looks  []look
	}{
		"once": {looks: []look{{0, "0-1", true}}},
		"once a minute": {looks: []look{
			{0, "0-1", true}, {time.Minute, "0-1", true}, {2 * time.Minute, "2", true},
		}},
		"again within the minute": {looks: []look{
			{15 * time.Second, "0-1", true},
			{30 * time.Second, "0-1", false},
			{2 * time.Minute, "0-1", false},
			{5*time.Minute + 29*time.Second, "0-1", false},
			{5*time.Minute + 30*time.Second, "0-1", true},
		}},
		"one that goes on": {looks: []look{
			{0, "0-1", true},
			{time.Second, "2", false},
			{4 * time.Minute, "0-1", false},
			{8 * time.Minute, "0-1", false},
			{9 * time.Minute, "0-1", true},
		}},
		"and once more": {looks: []look{
			{0, "0-1", true},
			{time.Second, "0-1", false},
			{6 * time.Minute, "0-1", true},
			{6*time.Minute + time.Second, "0-1", false},
			{12 * time.Minute, "0-1", true},
		}},
		"chosen, and never taken back": {chosen: true, looks: []look{
			{0, "0-1", true}, {time.Second, "0-1", false}, {10 * time.Minute, "0-1", false}, {time.Hour, "0-1", false},
		}},
		"chosen, and taken back": {chosen: true, looks: []look{
			{0, "0-1", true},
			{time.Second, "0-1", false},
			{time.Hour, "0-1", false},
			{time.Hour + time.Minute, original, false},
			{time.Hour + 5*time.Minute, original, true},
		}},
		"taken back for a while": {chosen: true, looks: []look{
			{0, "0-1", true},
			{time.Second, original, false},
			{4 * time.Minute, "2", false},
			{6 * time.Minute, original, false},
			{9 * time.Minute, original, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			conflict := Conflict{Chosen: c.chosen}
			for _, l := range c.looks {
				write := conflict.MayWrite(l.at, l.stands, l.stands == original)
				if write != l.write {
					t.Errorf("at %s over %q: %t, want %t", l.at, l.stands, write, l.write)
				}
				if !write && conflict.Left() == "" {
					conflict.Leave(l.at, l.stands, "another writer's")
				}
				if left := conflict.Left() != ""; left == write {
					t.Errorf("at %s: written %t, left %t", l.at, write, left)
				}
			}
		})
	}
}

// When the value is the desired one again, the conflict ends, but the minute still applies.
func TestConflictReturned(t *testing.T) {
	var c Conflict
	if !c.MayWrite(0, "1", false) || c.MayWrite(time.Second, "1", false) {
		t.Error("not once a minute")
	}
	c.Leave(time.Second, "1", "another writer's")
	c.Returned()
	if c.Left() != "" || c.MayWrite(59*time.Second, "1", false) || !c.MayWrite(time.Minute, "1", false) {
		t.Error("the minute does not count")
	}
}
