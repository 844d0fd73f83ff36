package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
)

const profileText = `{"apiVersion":"berth.dev/v1alpha1","kind":"Profile","metadata":{"name":"p"},"spec":{
"cpus":{"fast":{"numaNodes":"1","without":["h"],"partition":"isolated"},"h":{"coresPerNUMANode":1}},
"settings":{"fair.slice":"3ms","fair.nrMigrate":64,"sched.autogroup":false,"sysctl.kernel.x":{"value":0,"optional":true}},
"units":[{"unit":"db.service","cpus":"fast"}]}}`

// TestDecodeProfile: a value may be a text, a number or a truth value, alone or in an
// object, and is written as it was.
func TestDecodeProfile(t *testing.T) {
	p, problems := v1alpha1.DecodeProfile([]byte(profileText))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := map[string]v1alpha1.ProfileSetting{
		"fair.slice": {Value: "3ms"}, "fair.nrMigrate": {Value: "64"}, "sched.autogroup": {Value: "false"},
		"sysctl.kernel.x": {Value: "0", Optional: true},
	}
	if diff := cmp.Diff(want, p.Spec.Settings); diff != "" {
		t.Error(diff)
	}
	written, err := json.Marshal(p.Spec.Settings)
	if err != nil || string(written) != `{"fair.nrMigrate":64,"fair.slice":"3ms","sched.autogroup":false,"sysctl.kernel.x":{"value":0,"optional":true}}` {
		t.Errorf("%s, %v", written, err)
	}
}

// FuzzDecodeProfile: what is taken is taken again as it is written, and is the same.
func FuzzDecodeProfile(f *testing.F) {
	f.Add(profileText)
	f.Add(`{"spec":{"settings":{"a":null,"b":[],"c":{"value":{}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, problems := v1alpha1.DecodeProfile([]byte(text))
		if len(problems) > 0 {
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := v1alpha1.DecodeProfile(written)
		if diff := cmp.Diff(p.Spec.Settings, again.Spec.Settings); diff != "" || len(problems) > 0 {
			t.Errorf("%s: %v\n%s", written, problems, diff)
		}
	})
}
