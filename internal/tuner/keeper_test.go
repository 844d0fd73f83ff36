package tuner

import "testing"

// TestServiceAsSystemdTakesIt: systemd refuses a property of another type. The service has
// started when the program was executed: a fire-and-forget start would find out at the deadline
// that it cannot be.
func TestServiceAsSystemdTakesIt(t *testing.T) {
	k := Keeper{Program: []string{"/usr/bin/berth", "tune", "deadline"}}
	found := map[string]any{}
	signatures := map[string]string{}
	for _, p := range k.service(true) {
		found[p.Name], signatures[p.Name] = p.Value.Value(), p.Value.Signature().String()
	}
	for name, want := range map[string]string{"Type": "s", "ExecStart": "a(sasb)", "CollectMode": "s", "Restart": "s", "OOMScoreAdjust": "i", "CPUSchedulingPolicy": "i", "CPUSchedulingPriority": "i"} {
		if signatures[name] != want {
			t.Errorf("%s is %q, want %s", name, signatures[name], want)
		}
	}
	if found["Type"] != "exec" {
		t.Errorf("the service is of type %v", found["Type"])
	}
}
