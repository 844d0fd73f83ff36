package tuner

import (
	"fmt"
	"slices"
	"testing"
)

// TestServiceAsSystemdTakesIt: systemd refuses a property of another type. The service type must report a failed exec
// at the start: a fire-and-forget start would reveal it only at the deadline.
func TestServiceAsSystemdTakesIt(t *testing.T) {
	k := Keeper{Program: []string{"/usr/bin/berth", "tune", "deadline"}, Final: 4}
	found := map[string]any{}
	signatures := map[string]string{}
	for _, p := range k.service(true) {
		found[p.Name], signatures[p.Name] = p.Value.Value(), p.Value.Signature().String()
	}
	for name, want := range map[string]string{
		"Type": "s", "ExecStart": "a(sasb)", "CollectMode": "s", "Restart": "s", "RestartUSec": "t", "StartLimitIntervalUSec": "t", "RestartPreventExitStatus": "(aiai)",
		"OOMScoreAdjust": "i", "CPUSchedulingPolicy": "i", "CPUSchedulingPriority": "i", "Slice": "s",
	} {
		if signatures[name] != want {
			t.Errorf("%s is %q, want %s", name, signatures[name], want)
		}
	}
	if found["Slice"] != "-.slice" { // a profile may change the policy of processes in another slice
		t.Errorf("the service is in %v", found["Slice"])
	}
	if found["Type"] != "exec" {
		t.Errorf("the service is of type %v", found["Type"])
	}
	if command := fmt.Sprint(found["ExecStart"]); command != "[{/usr/bin/berth [/usr/bin/berth tune deadline] false}]" {
		t.Errorf("systemd ignores failures of %s", command)
	}
	// A Go program that gets no memory from the kernel exits with 2.
	final, _ := found["RestartPreventExitStatus"].(exits)
	if found["Restart"] != "on-failure" || found["RestartUSec"] != uint64(1e6) || found["StartLimitIntervalUSec"] != uint64(0) || !slices.Contains(final.Codes, 4) || slices.Contains(final.Codes, 1) || slices.Contains(final.Codes, 2) {
		t.Errorf("it is started again %v, after %v us, limit %v us, but for %v", found["Restart"], found["RestartUSec"], found["StartLimitIntervalUSec"], final)
	}
	if slices.Contains(final.Codes, 204) { // MEMORY
		t.Error("one that systemd had no memory for is not started again")
	}
	for _, code := range []int32{203, 214} { // EXEC, SETSCHEDULER: the unit would stand in the way of another keeper
		if !slices.Contains(final.Codes, code) {
			t.Errorf("one that systemd cannot execute (%d) is started again", code)
		}
	}
}
