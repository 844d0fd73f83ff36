package tuner

import (
	"fmt"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
)

// TestTimerAsSystemdTakesIt: systemd refuses a property of another type.
func TestTimerAsSystemdTakesIt(t *testing.T) {
	k := Keeper{Program: []string{"/usr/bin/berth", "tune", "deadline"}}
	for name, tt := range map[string]struct {
		properties []systemd.Property
		want       string
	}{
		"TimersMonotonic":   {timerOf(90 * time.Second), "a(st)"},
		"AccuracyUSec":      {timerOf(0), "t"},
		"RemainAfterElapse": {timerOf(-time.Second), "b"},
		"ExecStart":         {k.service(), "a(sasb)"},
		"CollectMode":       {k.service(), "s"},
	} {
		found := false
		for _, p := range tt.properties {
			if p.Name == name {
				found = true
				if got := p.Value.Signature().String(); got != tt.want {
					t.Errorf("%s is %s, want %s", name, got, tt.want)
				}
			}
		}
		if !found {
			t.Errorf("no %s", name)
		}
	}
	if got := fmt.Sprint(timerOf(90 * time.Second)[1].Value.Value()); got != "[{OnActiveSec 90000000}]" {
		t.Errorf("it elapses %s", got)
	}
}
